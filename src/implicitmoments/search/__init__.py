"""Search for the best fit: EM, moves, budgets and the number of components.

Nothing here knows a model. A :class:`Family` brings the E-step, the M-step and places to split.
"""

from implicitmoments.search.choose_k import Chosen, choose_k, grow_and_prune
from implicitmoments.search.em import (
    LOCAL,
    SEARCH,
    WHOLE,
    Budget,
    EMFamily,
    Expectations,
    Family,
    Fitted,
    State,
    bic,
    run_em,
)
from implicitmoments.search.information import (
    ComponentScores,
    measure_information,
    parameter_covariance,
    row_weights,
    unknown_errors,
    weight_errors,
)
from implicitmoments.search.moves import (
    GROW,
    Ranking,
    Searched,
    grow,
    merge_cheapest,
    rank_moves,
    search_moves,
)
from implicitmoments.search.trials import (
    Merges,
    Shares,
    insertion_gains,
    merge_losses,
    responsibilities,
    split_gain,
)

__all__ = [
    "GROW",
    "LOCAL",
    "SEARCH",
    "WHOLE",
    "Budget",
    "Chosen",
    "ComponentScores",
    "EMFamily",
    "Expectations",
    "Family",
    "Fitted",
    "Merges",
    "Ranking",
    "Searched",
    "Shares",
    "State",
    "bic",
    "choose_k",
    "grow",
    "grow_and_prune",
    "insertion_gains",
    "measure_information",
    "merge_cheapest",
    "merge_losses",
    "parameter_covariance",
    "rank_moves",
    "responsibilities",
    "row_weights",
    "run_em",
    "search_moves",
    "split_gain",
    "unknown_errors",
    "weight_errors",
]
