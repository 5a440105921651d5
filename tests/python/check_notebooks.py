"""Runs every notebook of examples/notebooks: PYTHONPATH=build/dev/python python3 tests/python/check_notebooks.py"""
import os
import unittest
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("LACUNA_MODELS", str(ROOT / "models"))
os.environ["MPLBACKEND"] = "agg"


class Notebooks(unittest.TestCase):
    def test_run_from_the_first_cell_to_the_last(self):
        files = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
        self.assertEqual(len(files), 3)
        for file in files:
            with self.subTest(file.stem):
                notebook = nbformat.read(file, as_version=4)
                nbformat.validate(notebook)
                self.assertFalse(any(cell.get("outputs") for cell in notebook.cells), "outputs are not committed")
                NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
                texts = "".join(str(output) for cell in notebook.cells for output in cell.get("outputs", []))
                self.assertIn({"first_canvas": "14", "own_policy": "the policy raised",
                               "compare_accelerations": "of the baseline"}[file.stem], texts)


if __name__ == "__main__":
    unittest.main()
