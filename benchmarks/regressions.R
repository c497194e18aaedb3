# Fit one mixture of regressions; called by regressions.py.
# Rscript regressions.R <flexmix|mixtools> <data> <n> <d> <k> <starts> <seed>
# The data are doubles, X by columns and then y. Prints "seconds" and k lines of weight,
# coefficients without the intercept.
args <- commandArgs(trailingOnly = TRUE)
method <- args[1]
n <- as.integer(args[3]); d <- as.integer(args[4]); k <- as.integer(args[5])
starts <- as.integer(args[6]); set.seed(as.integer(args[7]))
values <- readBin(args[2], "double", n * (d + 1))
X <- matrix(values[1:(n * d)], n, d)
y <- values[(n * d + 1):(n * (d + 1))]
if (method == "flexmix") {
  suppressMessages(library(flexmix))
  frame <- data.frame(y = y, X)
  how <- list(iter.max = 500, minprior = 0)
  clock <- proc.time()[3]
  fit <- if (starts == 1) flexmix(y ~ ., data = frame, k = k, control = how) else
    stepFlexmix(y ~ ., data = frame, k = k, nrep = starts, control = how, verbose = FALSE)
  seconds <- proc.time()[3] - clock
  P <- parameters(fit)
  coefficients <- t(P[2:(d + 1), , drop = FALSE])
  weights <- prior(fit)
} else {
  suppressMessages(library(mixtools))
  clock <- proc.time()[3]
  invisible(capture.output(fit <- regmixEM(y, X, k = k, maxit = 500, epsilon = 1e-6 * n)))
  seconds <- proc.time()[3] - clock
  coefficients <- t(fit$beta[-1, , drop = FALSE])
  weights <- fit$lambda
}
cat(sprintf("%.3f\n", seconds))
write.table(cbind(weights, coefficients), row.names = FALSE, col.names = FALSE)
