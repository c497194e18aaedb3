# Fit mixtures of regressions; called by regression_peers.py.
# Rscript regressions.R <flexmix|mixtools> <data> <n> <d> <ks> <noises> <starts> <iterations> <seed>
# The data are doubles, X by columns and then y. The numbers of lines, the kinds of noise (shared,
# separate) and the numbers of starts are lists with commas. For each of them prints a line with
# k, noise, starts and seconds of the processor, and k lines: weight, intercept, coefficients and noise of the best
# of so many starts. Prints nothing where no start has a fit.
args <- commandArgs(trailingOnly = TRUE)
words <- function(i) strsplit(args[i], ",")[[1]]
method <- args[1]
n <- as.integer(args[3]); d <- as.integer(args[4])
starts <- as.integer(words(7)); iterations <- as.integer(args[8])
values <- readBin(args[2], "double", n * (d + 1))
X <- matrix(values[1:(n * d)], n, d)
y <- values[(n * d + 1):(n * (d + 1))]

once_flexmix <- function(k, noise) {
  frame <- data.frame(y = y, X)
  # without "." FLXMRglmfix has the same formula
  formula <- reformulate(names(frame)[-1], "y")
  model <- if (noise == "shared") FLXMRglmfix(varFix = TRUE) else FLXMRglm()
  how <- list(iter.max = iterations, minprior = 0)
  fit <- flexmix(formula, data = frame, k = k, model = model, control = how)
  P <- parameters(fit)
  list(level = as.numeric(logLik(fit)), table = cbind(prior(fit), t(P)))
}

once_mixtools <- function(k, noise) {
  invisible(capture.output(
    fit <- regmixEM(y, X, k = k, maxit = iterations, epsilon = 1e-6 * n, arbvar = noise == "separate")
  ))
  list(level = fit$loglik, table = cbind(fit$lambda, t(fit$beta), rep_len(fit$sigma, k)))
}

suppressMessages(library(method, character.only = TRUE))
once <- if (method == "flexmix") once_flexmix else once_mixtools
for (k in as.integer(words(5))) for (noise in words(6)) {
  set.seed(as.integer(args[9]))
  best <- NULL
  clock <- sum(proc.time()[1:2])
  for (start in seq_len(max(starts))) {
    fit <- tryCatch(once(k, noise), error = function(e) NULL)
    if (!is.null(fit) && is.finite(fit$level) && (is.null(best) || fit$level > best$level)) best <- fit
    if (start %in% starts && !is.null(best)) {
      cat(k, noise, start, sprintf("%.3f", sum(proc.time()[1:2]) - clock), "\n")
      write.table(format(best$table, digits = 17), row.names = FALSE, col.names = FALSE, quote = FALSE)
    }
  }
}
