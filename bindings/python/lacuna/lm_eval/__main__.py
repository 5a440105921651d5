"""The command line of lm-evaluation-harness with the model `lacuna`: python -m lacuna.lm_eval --model lacuna ..."""
import lacuna.lm_eval  # noqa: F401  registers the model
from lm_eval.__main__ import cli_evaluate

cli_evaluate()
