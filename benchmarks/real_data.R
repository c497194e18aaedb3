# Data sets of R for real_data.py: Rscript real_data.R FOLDER
# Each is a CSV file without a header: columns, then the class, which is empty where there is none.
folder <- commandArgs(trailingOnly = TRUE)[1]
from_mlbench <- c("Vehicle", "Vowel", "Satellite", "LetterRecognition", "Shuttle")
of <- new.env()
data(list = "GvHD", package = "mclust", envir = of)
data(list = from_mlbench, package = "mlbench", envir = of)
of$Vowel$V1 <- NULL  # the speaker
sets <- list(
  faithful = list(datasets::faithful, ""),
  thyroid = list(mclust::thyroid[, -1], mclust::thyroid$Diagnosis),
  diabetes = list(mclust::diabetes[, -1], mclust::diabetes$class),
  banknote = list(mclust::banknote[, -1], mclust::banknote$Status),
  acidity = list(data.frame(mclust::acidity), ""),
  galaxies = list(data.frame(MASS::galaxies), ""),
  crabs = list(MASS::crabs[, 4:8], paste(MASS::crabs$sp, MASS::crabs$sex)),
  glass = list(MASS::fgl[, 1:9], MASS::fgl$type),
  gvhd_positive = list(of$GvHD.pos, ""),
  gvhd_control = list(of$GvHD.control, "")
)
for (name in from_mlbench) {
  factors <- sapply(of[[name]], is.factor)
  sets[[tolower(name)]] <- list(of[[name]][, !factors], of[[name]][, factors])
}
for (name in names(sets)) {
  table <- cbind(sets[[name]][[1]], class = as.character(sets[[name]][[2]]))
  path <- file.path(folder, paste0(name, ".csv"))
  write.table(table, path, sep = ",", row.names = FALSE, col.names = FALSE)
}
