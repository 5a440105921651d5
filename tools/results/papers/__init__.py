"""Main tables of the five papers as data: commands on the released checkpoints, and the papers' figures."""
from . import flashdlm, mage, refusion, surelock, uniform

TABLES = {(table.paper, table.name): table
          for paper in (surelock, uniform, flashdlm, refusion, mage) for table in paper.TABLES}
