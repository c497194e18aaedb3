# What flexmix and mixtools do, tried out: Rscript benchmarks/features.R
suppressMessages({library(flexmix); library(mixtools)})
quietly <- function(code) { capture.output(value <- try(code, silent = TRUE)); value }
works <- function(code) if (inherits(quietly(code), "try-error")) "no" else "yes"
say <- function(what, value) cat("|", what, "|", value, "|\n")

cat("flexmix", as.character(packageVersion("flexmix")), "mixtools",
    as.character(packageVersion("mixtools")), R.version.string, "\n\n| what | found |\n|---|---|\n")
set.seed(1)
n <- 600
x <- rnorm(n)
y <- c(2, -2)[rep(1:2, each = n / 2)] * x + 0.3 * rnorm(n)
missing <- replace(y, 1, NA)
f <- quietly(flexmix(y ~ x, k = 2))
m <- quietly(regmixEM(y, x, k = 2))

say("flexmix fits a mixture of regressions", works(parameters(f)))
say("one noise for all lines (FLXMRglmfix)", works(flexmix(y ~ x, k = 2, model = FLXMRglmfix(varFix = TRUE))))
say("standard errors (refit)", works(refit(f)))
say("predicts new rows", works(predict(f, newdata = data.frame(x = c(0, 1)))))
say("draws rows (rflexmix)", works(rflexmix(f)))
say("several k and starts, BIC (initFlexmix)", works(BIC(initFlexmix(y ~ x, k = 1:3, nrep = 2, verbose = FALSE))))
say("default of nrep", formals(initFlexmix)$nrep)
say("whole weights", works(flexmix(y ~ x, k = 2, weights = rep(2L, n))))
say("fractional weights", works(flexmix(y ~ x, k = 2, weights = rep(0.5, n))))
say("missing labels", works(flexmix(missing ~ x, k = 2)))
say("components lighter than this are removed", new("FLXcontrol")@minprior)
say("Poisson regressions", works(flexmix(rpois(n, 3) ~ x, k = 2, model = FLXMRglm(family = "poisson"))))
say("multivariate Gaussians (FLXMCmvnorm) are diagonal or full", deparse(args(FLXMCmvnorm))[1])

say("mixtools fits a mixture of regressions", works(m$beta))
say("one noise for all lines (arbvar)", works(regmixEM(y, x, k = 2, arbvar = FALSE)))
say("standard errors (boot.se)", works(boot.se(m, B = 5)))
say("predict method", exists("predict.mixEM"))
say("arguments of regmixEM", paste(names(formals(regmixEM)), collapse = ", "))
say("missing labels", works(regmixEM(missing, x, k = 2)))
say("criteria for k (regmixmodel.sel)", works(regmixmodel.sel(x, y, k = 2)))
say("draws rows of a Gaussian mixture (rmvnormmix)", works(rmvnormmix(10, mu = matrix(0, 1, 2), sigma = matrix(1, 1, 2))))
say("arguments of mvnormalmixEM", paste(names(formals(mvnormalmixEM)), collapse = ", "))
