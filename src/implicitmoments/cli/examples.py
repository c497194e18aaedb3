"""Examples that the help of each command shows, and that of all commands under ""."""

from __future__ import annotations

EXAMPLES: dict[str, str] = {
    "": """\b
Examples:
  implicitmoments fit mixture rows.csv -k 3 -o model.im
  implicitmoments report model.im rows.csv -o report.html --open

\b
Exit codes: 0 success, 1 failure during the work, 2 bad usage or bad input, 130 interrupted,
143 terminated.
""",
    "fit": """\b
Examples:
  implicitmoments fit mixture rows.csv -k 3 -o model.im
  implicitmoments fit mixture rows.parquet --columns height,width --weight count
  implicitmoments fit mixture rows.csv -k 2-8 -o model.im
  implicitmoments fit mixture rows.csv -k 3 --scale -o scaled.im
  implicitmoments fit mixture rows.csv -k auto --covariance auto -o ellipses.im
  implicitmoments fit mixture 2025.csv '2026-*.csv' -k 3 -o years.im
  implicitmoments fit mixture spreadsheet.csv -k 3 --sep ';' --decimal , --na-values -,.
  implicitmoments fit regressions tones.csv --target tuned -k 2 -o lines.im
  implicitmoments fit activations data.csv --target y --activation relu -k auto
  implicitmoments fit density rows.npy -k 4 --degree 6 --set epsilon=0.1
  zcat rows.csv.gz | implicitmoments fit mixture - -k auto --json
  implicitmoments fit mixture huge.parquet -k 20 --checkpoint huge.journal
""",
    "predict": """\b
Examples:
  implicitmoments predict model.im new.csv > labels.csv
  implicitmoments predict model.im '2026-*.csv' -o labels.csv
  implicitmoments predict model.im new.parquet --proba -o probabilities.parquet
  implicitmoments predict lines.im tones.csv --target tuned --proba
  implicitmoments predict lines.im tones.csv --component --keep stretch,tuned
  cut -d, -f1-4 new.csv | implicitmoments predict model.im - | sort | uniq -c
""",
    "score": """\b
Examples:
  implicitmoments score model.im held_out.csv
  implicitmoments score lines.im held_out.csv --target tuned --json
  implicitmoments score model.im held_out.npy --rows -o log_densities.npy
""",
    "evaluate": """\b
Examples:
  implicitmoments evaluate model.im held_out.csv
  implicitmoments evaluate lines.im held_out.csv --target tuned --json
""",
    "compare": """\b
Examples:
  implicitmoments compare three.im four.im held_out.csv
  implicitmoments compare lines.im others.im held_out.csv --target tuned --json
""",
    "sample": """\b
Examples:
  implicitmoments sample model.im -n 1000 --seed 1 > drawn.csv
  implicitmoments sample model.im -n 500000 -o drawn.parquet
""",
    "report": """\b
Examples:
  implicitmoments report model.im rows.csv -o report.html --open
  implicitmoments report lines.im tones.csv --target tuned --title "Tones"
""",
    "describe": """\b
Examples:
  implicitmoments describe model.im
  implicitmoments describe model.im --json | jq .found.means
  implicitmoments describe model.im --format csv > components.csv
  implicitmoments describe model.im -o components.parquet
""",
    "demo": """\b
Examples:
  implicitmoments demo
  implicitmoments demo --seed 1 -o elsewhere
""",
}
