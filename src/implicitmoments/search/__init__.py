"""Search for the best fit: EM, moves, budgets and the number of components.

Nothing here knows a model. A :class:`Family` brings the E-step, the M-step and places to split.
"""

from implicitmoments.search.alternatives import (
    Alternative,
    add_components,
    merge_note,
    one_less,
    one_more,
    prefer,
    worth_of_component,
)
from implicitmoments.search.choose_k import Chosen, choose_k, fit_neighbours, grow_and_prune
from implicitmoments.search.crossings import Crossed, cross, cross_fresh, cross_populations
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
    information_sums,
    measure_information,
    parameter_covariance,
    row_weights,
    unknown_errors,
    weight_errors,
)
from implicitmoments.search.listed_shares import list_shares
from implicitmoments.search.matrix_shares import responsibilities
from implicitmoments.search.moves import (
    GROW,
    Searched,
    grow,
    merge_cheapest,
    search_moves,
)
from implicitmoments.search.ranking import (
    ENOUGH,
    Ranking,
    rank_moves,
)
from implicitmoments.search.shares import Shares
from implicitmoments.search.splits import split_gains
from implicitmoments.search.trials import Merges, insertion_gains, merge_losses, merges_of

__all__ = [
    "ENOUGH",
    "GROW",
    "LOCAL",
    "SEARCH",
    "WHOLE",
    "Alternative",
    "Budget",
    "Chosen",
    "ComponentScores",
    "Crossed",
    "EMFamily",
    "Expectations",
    "Family",
    "Fitted",
    "Merges",
    "Ranking",
    "Searched",
    "Shares",
    "State",
    "add_components",
    "bic",
    "choose_k",
    "cross",
    "cross_fresh",
    "cross_populations",
    "fit_neighbours",
    "grow",
    "grow_and_prune",
    "information_sums",
    "insertion_gains",
    "list_shares",
    "measure_information",
    "merge_cheapest",
    "merge_losses",
    "merge_note",
    "merges_of",
    "one_less",
    "one_more",
    "parameter_covariance",
    "prefer",
    "rank_moves",
    "responsibilities",
    "row_weights",
    "run_em",
    "search_moves",
    "split_gains",
    "unknown_errors",
    "weight_errors",
    "worth_of_component",
]
