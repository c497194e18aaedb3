# What flexmix and mixtools do: a line for each package and row of docs/comparison.md.
# Run: Rscript benchmarks/features.R     prints package, row, cell and what was seen between tabs
# benchmarks/features.py runs this, joins the lines with its own and prints the tables.
suppressMessages({library(flexmix); library(mixtools)})
pdf(NULL)  # pictures are drawn and not kept

# What went wrong other than as expected ends the script: a mistake is not to be read as "no".
tries <- function(code, refused = NULL, yes = "yes", no = "no") {
  said <- NULL
  capture.output(said <- tryCatch({
    value <- code
    if (is.null(value)) "it ran" else if (is.numeric(value)) head(signif(value, 3), 6) else
      if (is.character(value)) value else class(value)[1]
  }, error = function(e) e))
  if (!inherits(said, "error")) return(c(yes, paste(said, collapse = " ")))
  if (is.null(refused) || !grepl(refused, conditionMessage(said))) stop(said)
  c(no, paste("error:", conditionMessage(said)))
}

public_names <- function(package) {
  unlist(lapply(ls(paste0("package:", package)), function(name) {
    value <- get(name, paste0("package:", package))
    arguments <- if (is.function(value)) names(formals(value))
    c(name, if (length(arguments)) paste0(name, "(", arguments, ")"))
  }))
}
FLEXMIX <- c(public_names("flexmix"), paste0("control=", slotNames("FLXcontrol")))
MIXTOOLS <- public_names("mixtools")

absent <- function(names, pattern, no = "no") {
  found <- grep(pattern, names, ignore.case = TRUE, value = TRUE)
  if (length(found)) return(c(paste("found", paste(head(found, 5), collapse = ", ")), pattern))
  c(no, sprintf("none of %d public names and arguments has /%s/", length(names), pattern))
}
row <- function(name, flexmix, mixtools) {
  line <- function(package, cell)
    cat(paste(gsub("[\t\n]+", " ", c(package, name, cell)), collapse = "\t"), "\n", sep = "")
  line("flexmix", flexmix)
  line("mixtools", mixtools)
}
neither <- function(name, pattern) row(name, absent(FLEXMIX, pattern), absent(MIXTOOLS, pattern))

set.seed(1)
n <- 200
x <- rnorm(n)
y <- c(2, -2)[rep(1:2, each = n / 2)] * x + 0.3 * rnorm(n)
X <- rbind(matrix(rnorm(n), ncol = 2), matrix(rnorm(n) + 6, ncol = 2))
light <- c(rnorm(291), rnorm(9) + 10)  # 3 % of the rows
group <- rep(1:20, each = 10)
counts <- rpois(n, 3)
few <- list(iter.max = 3)  # steps, where they are slow
new <- data.frame(x = c(0, 1), y = c(0, 2))
discard <- capture.output({
  f <- flexmix(y ~ x, k = 2)
  m <- regmixEM(y, x, k = 2)
})

## Models
row("spherical Gaussians, one variance per component", absent(FLEXMIX, "spher"), absent(MIXTOOLS, "spher"))
row("spherical Gaussians, tied variance",
    tries(parameters(flexmix(X[, 1] ~ 1, k = 2, model = FLXMRglmfix(varFix = TRUE)))["sigma", ], yes = "one feature only"),
    tries(normalmixEM(X[, 1], k = 2, arbvar = FALSE)$sigma, yes = "one feature only"))
row("diagonal covariances",
    tries(flexmix(X ~ 1, k = 2, model = FLXMCmvnorm())), absent(MIXTOOLS, "diag"))
row("full covariances",
    tries(flexmix(X ~ 1, k = 2, model = FLXMCmvnorm(diagonal = FALSE))), tries(mvnormalmixEM(X, k = 2)$sigma[[1]]))
row("tied full covariance",
    absent(grep("mvnorm", FLEXMIX, value = TRUE), "tied|equal|fix|shared"),
    tries(mvnormalmixEM(X, k = 2, arbvar = FALSE)$sigma))
row("factor analysers",
    tries(flexmix(cbind(X, X + rnorm(2 * n), X + rnorm(2 * n)) ~ 1, k = 2, model = FLXMCfactanal(factors = 1))),
    absent(MIXTOOLS, "factor"))
row("other families (Poisson, gamma, …)",
    tries(flexmix(abs(y) + 0.01 ~ 1, k = 2, model = FLXMCdist1(dist = "gamma"))),
    tries(gammamixEM(abs(y) + 0.01, k = 2)$lambda))
row("nonparametric components", absent(FLEXMIX, "^np|kernel|bandwidth|nonparam"), tries(npEM(X, mu0 = 2), yes = "`npEM`"))
row("features of different families",
    tries(flexmix(cbind(X, X[, 1] > 3) ~ 1, k = 2, model = FLXMCmvcombi()), yes = "`FLXMCmvcombi`"),
    absent(MIXTOOLS, "combi|family"))
row("linear regressions", tries(parameters(f)), tries(m$beta))
row("generalised linear models",
    tries(flexmix(counts ~ x, k = 2, model = FLXMRglm(family = "poisson"))),
    tries({poisregmixEM(counts, x, k = 2); logisregmixEM(1 * (y > 0), x, k = 2)$beta}, yes = "Poisson, logistic"))
halves <- split(1:100, rep(1:10, each = 10))
row("random effects",
    tries(flexmix(y ~ x | group, k = 2, model = FLXMRlmer(random = ~ 1)), yes = "`FLXMRlmer`"),
    tries(regmixEM.mixed(lapply(halves, function(i) y[i]), lapply(halves, function(i) cbind(1, x[i])), k = 2,
                         addintercept.random = FALSE, maxit = 5), yes = "`regmixEM.mixed`"))
row("smooth or penalised terms",
    tries({flexmix(y ~ s(x), k = 2, model = FLXMRmgcv(), control = few)
           flexmix(y ~ x + I(x^2) + I(x^3), k = 2, model = FLXMRglmnet(), control = few)},
          yes = "`FLXMRmgcv`, `FLXMRglmnet`"),
    absent(MIXTOOLS, "spline|smooth|lasso|penal"))
row("weights that depend on x",
    tries(flexmix(y ~ x, k = 2, concomitant = FLXPmultinom(~ x)), yes = "`FLXPmultinom`"),
    tries(hmeEM(y, cbind(x), k = 2)$beta, yes = "`hmeEM`"))
row("grouped rows that share a component",
    tries(flexmix(y ~ x | group, k = 2), yes = "a formula with a bar"),
    tries(repnormmixEM(matrix(y, nrow = 10), k = 2, maxit = 50)$mu, yes = "`repnormmixEM`"))
neither("positive sums of a known activation", "activation|relu|neural")
neither("density from moments, without components", "moment|hermite")
neither("hidden Markov models, Bayesian networks", "markov|hmm|bayesnet")
neither("implicit moments of high order", "moment")
neither("more components than features, from moments", "moment")
neither("decomposition of a given tensor", "tensor|parafac|tucker")
neither("Tucker, tensor train, tensor regression", "tensor|tucker")

## Fitting
from_random <- function(fit) { a <- fit(1); b <- fit(2); if (identical(a, b)) "the same twice" else "random" }
first <- function(seed) { set.seed(seed); regmix.init(y, cbind(1, x), k = 2)$beta }
memberships <- function(seed) { set.seed(seed); suppressWarnings(posterior(flexmix(y ~ x, k = 2, control = list(iter.max = 1)))) }
row("initialisation", c(from_random(memberships), "posteriors after one step, with two seeds"),
    c(from_random(first), "regmix.init with two seeds"))
row("multiple starts",
    tries({initFlexmix(y ~ x, k = 2, nrep = 2, verbose = FALSE); formals(initFlexmix)$nrep},
          yes = paste0("`initFlexmix`, default ", formals(initFlexmix)$nrep)),
    absent(grep("EM", MIXTOOLS, value = TRUE), "nrep|nstart|n_init|\\(starts"))
row("user-defined start",
    tries(flexmix(y ~ x, k = 2, cluster = posterior(f)), yes = "`cluster=`"),
    tries(regmixEM(y, x, beta = m$beta, k = 2)$beta, yes = "`beta=`, `mu=`"))
row("EM", tries(f@iter), tries(length(m$all.loglik)))
row("stochastic or hard EM",
    tries({for (kind in c("CEM", "SEM")) flexmix(y ~ x, k = 2, control = list(classify = kind)); kind}, yes = "`classify=`"),
    tries(spRMM_SEM(rexp(100), d = rep(1, 100), lambda = c(0.5, 0.5), scaling = 2, maxit = 5), yes = "reliability, `spRMM_SEM`"))
whole <- tries(flexmix(y ~ x, k = 2, weights = rep(2L, n)), yes = "whole numbers")
broken <- tries(flexmix(y ~ x, k = 2, weights = rep(0.5, n)), "only integer weights", yes = "yes")
row("sample weights", if (broken[1] == "no") c(whole[1], broken[2]) else broken,
    absent(grep("EM", MIXTOOLS, value = TRUE), "weight|wt"))
row("number of components",
    tries(getModel(initFlexmix(y ~ x, k = 1:3, nrep = 2, verbose = FALSE), "BIC")@k, yes = "`getModel`, best of a range"),
    tries(boot.comp(y, x, max.comp = 1, B = 3, mix.type = "regmix", hist = FALSE)$p.values, yes = "tests, `boot.comp`"))
row("criteria", tries(c(AIC(f), BIC(f), ICL(f), EIC(f)), yes = "AIC, BIC, ICL, EIC"),
    tries(rownames(regmixmodel.sel(x, y, k = 2)), yes = "AIC, BIC, CAIC, ICL"))
row("bootstrap test of the number of components",
    tries(LR_test(flexmix(y ~ x, k = 1), R = 3, alternative = "greater"), yes = "`LR_test`"),
    tries(boot.comp(y, x, max.comp = 1, B = 3, mix.type = "regmix", hist = FALSE)$p.values, yes = "`boot.comp`"))
row("standard errors", tries({refit(f); boot(f, R = 3, sim = "parametric")}, yes = "`refit`, `boot`"),
    tries(boot.se(m, B = 3)$beta.se, yes = "`boot.se`"))
far <- function() {  # one label at 1000; a background component, of 0.5 %, is to take that row and no other
  set.seed(1)
  fitted <- flexmix(c(y, 1000) ~ c(x, 0), k = 3, model = FLXMRrobglm(), control = list(minprior = 0))
  stopifnot(identical(which(clusters(fitted) == 1), as.integer(n + 1)))
  parameters(fitted)[2, ]
}
row("outliers", tries(far(), yes = "background component, `FLXMRrobglm`"),
    absent(MIXTOOLS, "robust|outlier|trim"))
row("missing values", tries(flexmix(replace(X, 1, NA) ~ 1, k = 2, model = FLXMCmvnorm()), "finite"),
    tries(mvnormalmixEM(replace(X, 1, NA), k = 2), "missing"))
lightest <- tries(flexmix(light ~ 1, k = 2, cluster = rep(1:2, c(291, 9)))@k)
row("components of small weight",
    c(if (lightest[2] == "1") paste0("dropped below ", 100 * new("FLXcontrol")@minprior, " %, an option") else "kept",
      paste("components left of 2:", lightest[2])),
    tries(min(normalmixEM(light, mu = c(0, 10), k = 2)$lambda), yes = "kept"))
row("prior on parameters", absent(FLEXMIX, "bayes|dirichlet|wishart|gibbs|MCMC"),
    tries(regmixMH(y, x, k = 2, sampsize = 20), yes = "`regmixMH`"))
neither("lower bound on variances", "reg_|min_?var|min_?cov|floor|eps\\.var")
row("fixed parameters",
    tries(flexmix(y ~ x, k = 2, model = FLXMRglmfix(fixed = ~ x)), yes = "equal for all, `FLXMRglmfix`"),
    tries(normalmixEM(X[, 1], mean.constr = c(0, NA), k = 2)$mu, yes = "`mean.constr`, `sd.constr`"))
neither("semi-supervised", "\\(labels?\\)|semi_?sup|known_?(label|class)")
predicted <- tries(predict(m, new), "no applicable method")
row("prediction for new rows", tries({predict(f, newdata = new); posterior(f, newdata = new)}), predicted)
row("density of new rows", tries(as.numeric(logLik(f, newdata = new))), tries(logLik(m, newdata = new), "no applicable method"))
row("sampling", tries(rflexmix(f)), tries(rmvnormmix(2, mu = matrix(0, 1, 2), sigma = matrix(1, 1, 2)),
                                            yes = "from given parameters"))

## Rows and machines
neither("incremental fits", "partial|chunk|update|incremental")
neither("data in files", "file|path|connection")
row("resumes after an interruption",
    tries(flexmix(y ~ x, k = 2, cluster = posterior(f))@iter, yes = "by hand, `cluster=`"),
    tries(length(regmixEM(y, x, beta = m$beta, lambda = m$lambda, sigma = m$sigma, k = 2)$all.loglik), yes = "by hand, `beta=`"))
neither("other array libraries, GPU", "gpu|cuda|torch|device")
row("float32 in, float32 out", c("no", paste("numbers of R are", typeof(1))), c("no", paste("numbers of R are", typeof(1))))
neither("Dask", "dask|spark|cluster\\(workers|distributed")
sparse <- Matrix::Matrix(X, sparse = TRUE)
discard <- capture.output(dense <- mvnormalmixEM(sparse, mu = list(c(0, 0), c(6, 6)), k = 2))
row("sparse data", tries(flexmix(sparse ~ 1, k = 2, model = FLXMCmvnorm()), "not a matrix|invalid type"),
    if (is.matrix(dense$x)) c("made dense", class(dense$x)[1]) else c("yes", class(dense$x)[1]))

## Around a fit
row("scikit-learn API", c("R", R.version.string), c("R", R.version.string))
row("data frames", tries(flexmix(y ~ x, data = data.frame(x = x, y = y), k = 2), yes = "formulas"),
    tries(mvnormalmixEM(as.data.frame(X), k = 2)$mu[[1]]))
kept <- function(model) { path <- tempfile(); saveRDS(model, path); c("`saveRDS`", class(readRDS(path))[1]) }
row("model files", kept(f), kept(m))
programs <- function(package) {
  at <- system.file("exec", package = package)
  c(if (nzchar(at)) "yes" else "no", paste0("folder exec: '", at, "'"))
}
row("command line", programs("flexmix"), programs("mixtools"))
row("report", tries(capture.output(summary(f))[2:4], yes = "`summary`"), tries(capture.output(summary(m))[1:3], yes = "`summary`"))
row("plots", tries(plot(f)), tries({plot(m); "drawn"}))
shipped <- function(package) {
  found <- data(package = package)$results
  c(nrow(found), paste(found[, "Item"], collapse = " "))
}
row("data sets included", shipped("flexmix"), shipped("mixtools"))

## The projects
said <- function(package, field) c(packageDescription(package)[[field]], paste("DESCRIPTION of", package))
version <- function(package) c(as.character(packageVersion(package)), R.version.string)
row("version tested", version("flexmix"), version("mixtools"))
row("stated development status", c("not stated", "no such field in DESCRIPTION"), c("not stated", "no such field in DESCRIPTION"))
cited <- function(package) {
  years <- unlist(citation(package)$year)
  c(min(years), paste(c("citation():", years), collapse = " "))
}
row("first year", cited("flexmix"), cited("mixtools"))
row("licence", said("flexmix", "License"), said("mixtools", "License"))
