"""make_tasks.py FOLDER [--set NAME]: writes the tasks of a set into a folder, always with the same content.

FOLDER/NAME holds the program or data of a task, FOLDER/tasks.json the commands, calls and facts of all.
"""

import argparse
import dataclasses
import json
import shutil
from pathlib import Path

from tasks import SETS


def make_tasks(folder, name="everyday"):
    """Makes the tasks of a set and returns them; the folder is emptied before."""
    folder = Path(folder).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tasks = []
    for make in SETS[name]:
        own = folder / make.__name__
        own.mkdir()
        tasks.append(dataclasses.asdict(make(own)) | {"folder": str(own)})
    (folder / "tasks.json").write_text(json.dumps(tasks, indent=1, ensure_ascii=False) + "\n")
    return tasks


def main():
    parser = argparse.ArgumentParser(description="Makes the tasks of the benchmark of replies.")
    parser.add_argument("folder")
    parser.add_argument("--set", choices=SETS, default="everyday", help="the set of tasks (default: everyday)")
    arguments = parser.parse_args()
    tasks = make_tasks(arguments.folder, arguments.set)
    print(f"{len(tasks)} tasks, {sum(len(task['facts']) for task in tasks)} facts")


if __name__ == "__main__":
    main()
