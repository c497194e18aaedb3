# Data sets of R, and mclust's fits; called by real_data.py.
#   Rscript real_data.R export <folder>
# writes each set as a CSV file without a header, columns, then the class (empty if there is none),
# and prints the version of mclust.
#   Rscript real_data.R regressions <folder>
# writes sets with features, dummies for factors, and then y; those of carData if it is installed.
#   Rscript real_data.R more_regressions <folder>
# writes further ones, of mixtools, MASS and ggplot2; the classes of crabs in crabs.classes.
#   Rscript real_data.R fit <rows> <folder> <k> <seed> <models>
# fits the matrix in a CSV file: each model with k components, or, where k is "auto", the best of
# all with 1 to 9. Writes one file for each, a line per component: weight, mean, covariance. Prints
# names, seconds of the processor and log-likelihoods.
args <- commandArgs(trailingOnly = TRUE)

export <- function(folder) {
  sets <- list(
    faithful = list(datasets::faithful, NULL),
    thyroid = list(mclust::thyroid[, -1], mclust::thyroid$Diagnosis),
    diabetes = list(mclust::diabetes[, -1], mclust::diabetes$class),
    banknote = list(mclust::banknote[, -1], mclust::banknote$Status),
    acidity = list(data.frame(mclust::acidity), NULL),
    galaxies = list(data.frame(MASS::galaxies), NULL),
    crabs = list(MASS::crabs[, 4:8], paste(MASS::crabs$sp, MASS::crabs$sex)),
    glass = list(MASS::fgl[, 1:9], MASS::fgl$type)
  )
  of <- new.env()
  data(list = "GvHD", package = "mclust", envir = of)
  sets$gvhd_positive <- list(of$GvHD.pos, NULL)
  sets$gvhd_control <- list(of$GvHD.control, NULL)
  names <- c("Vehicle", "Vowel", "Satellite", "LetterRecognition", "Shuttle")
  data(list = names, package = "mlbench", envir = of)
  of$Vowel$V1 <- NULL  # the speaker
  for (name in names) {
    set <- get(name, of)
    classes <- sapply(set, is.factor)
    sets[[name]] <- list(set[, !classes], set[, classes])
  }
  for (name in names(sets)) {
    set <- sets[[name]]
    label <- if (is.null(set[[2]])) rep("", nrow(set[[1]])) else as.character(set[[2]])
    write.table(cbind(set[[1]], label), file.path(folder, paste0(tolower(sub("Recognition", "", name)), ".csv")),
                sep = ",", row.names = FALSE, col.names = FALSE)
  }
}

export_regressions <- function(folder) {
  of <- new.env()
  data(list = c("NPreg", "patent"), package = "flexmix", envir = of)
  data(list = "Servo", package = "mlbench", envir = of)
  births <- transform(MASS::birthwt, race = factor(race), bwt = bwt / 1000)
  sets <- list(
    npreg = model.frame(yn ~ x + I(x^2), of$NPreg),
    patent = model.frame(log1p(Patents) ~ lgRD, of$patent),
    servo = model.frame(Class ~ Motor + Screw + Pgain + Vgain, of$Servo),
    birthwt = model.frame(bwt ~ age + lwt + race + smoke + ptl + ht + ui + ftv, births),
    boston = model.frame(medv ~ ., MASS::Boston)
  )
  if (requireNamespace("carData", quietly = TRUE)) {
    salaries <- transform(carData::Salaries, salary = salary / 1000)
    sets$salaries <- model.frame(salary ~ ., salaries)
  }
  write_regressions(sets, folder)
}

export_more_regressions <- function(folder) {
  of <- new.env()
  data(list = c("CO2data", "NOdata", "tonedata"), package = "mixtools", envir = of)
  diamonds <- as.data.frame(ggplot2::diamonds)
  for (name in c("cut", "color", "clarity")) diamonds[[name]] <- as.integer(diamonds[[name]])
  sets <- list(
    co2 = model.frame(CO2 ~ GNP, of$CO2data),
    ethanol = model.frame(Equivalence ~ NO, of$NOdata),
    tone = model.frame(tuned ~ stretchratio, of$tonedata),
    crabs = model.frame(RW ~ CL, MASS::crabs),
    diamonds = model.frame(log(price) ~ log(carat) + depth + table + cut + color + clarity, diamonds)
  )
  write_regressions(sets, folder)
  writeLines(as.character(MASS::crabs$sex), file.path(folder, "crabs.classes"))
}

write_regressions <- function(sets, folder) {
  for (name in names(sets)) {
    set <- sets[[name]]
    X <- model.matrix(attr(set, "terms"), set)[, -1, drop = FALSE]
    write.table(cbind(X, model.response(set)), file.path(folder, paste0(name, ".csv")),
                sep = ",", row.names = FALSE, col.names = FALSE)
  }
}

components <- function(fit) {
  found <- fit$parameters
  if (fit$d == 1) {
    variances <- rep_len(found$variance$sigmasq, fit$G)
    return(cbind(found$pro, found$mean, variances))
  }
  cbind(found$pro, t(found$mean), t(matrix(found$variance$sigma, ncol = fit$G)))
}

# The hierarchical start of Mclust, which is the same for all models.
hierarchical_start <- function(X) {
  if (ncol(X) == 1) return(list())
  most <- mclust.options("subset")
  subset <- if (nrow(X) > most) sample(seq.int(nrow(X)), size = most) else NULL
  rows <- if (is.null(subset)) X else X[subset, ]
  pairs <- hc(rows, modelName = mclust.options("hcModelName"), use = mclust.options("hcUse"))
  list(hcPairs = pairs, subset = subset)
}

used <- function() sum(proc.time()[1:2])

fit_all <- function(path, folder, k, seed, models) {
  X <- as.matrix(read.csv(path, header = FALSE))
  jobs <- lapply(models, function(model) list(model, as.integer(k)))
  names(jobs) <- models
  if (k == "auto") jobs <- list(auto = list(models, 1:9))
  set.seed(seed)
  clock <- used()
  start <- hierarchical_start(X)
  started <- used() - clock
  for (name in names(jobs)) {
    clock <- used()
    fit <- tryCatch(
      Mclust(X, G = jobs[[name]][[2]], modelNames = jobs[[name]][[1]], initialization = start,
             verbose = FALSE),
      error = function(e) NULL
    )
    if (is.null(fit) || !is.finite(fit$loglik)) next
    seconds <- started + used() - clock
    if (is.null(fit$parameters$pro)) fit$parameters$pro <- 1  # of one component
    write.table(components(fit), file.path(folder, paste0(name, ".csv")),
                sep = ",", row.names = FALSE, col.names = FALSE)
    cat(name, fit$modelName, seconds, fit$loglik, "\n")
  }
}

suppressMessages(if (args[1] %in% c("export", "fit")) library(mclust))
if (args[1] == "export") {
  export(args[2])
  cat(as.character(packageVersion("mclust")))
} else if (args[1] == "regressions") {
  export_regressions(args[2])
  cat(as.character(packageVersion("flexmix")))
} else if (args[1] == "more_regressions") {
  export_more_regressions(args[2])
  cat(as.character(packageVersion("mixtools")))
} else {
  fit_all(args[2], args[3], args[4], as.integer(args[5]), strsplit(args[6], ",")[[1]])
}
