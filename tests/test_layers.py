"""Imports go down only, never sideways but inside a folder."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "keytokens"
FLOORS = {
    "errors": 0,
    "_checks": 1,
    "_extras": 1,
    "_files": 1,
    "_progress": 1,
    "_arrays": 2,
    "attention": 2,
    "losses": 2,
    "heads": 2,
    "problem": 3,
    "text": 3,
    "pages": 3,
    "dynamics": 4,
    "svm": 4,
    "embedding": 4,
    "certification": 5,
    "explain": 5,
    "model_file": 6,
    "classifier": 7,
    "report": 8,
    "experiments": 9,
    "cli": 10,
    "__main__": 11,
}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "keytokens." if node.level else ""
            module = base + (node.module or "")
            names |= (
                {module}
                if module != "keytokens"
                else {f"keytokens.{alias.name}" for alias in node.names}
            )
    return {name.split(".")[1] for name in names if name.startswith("keytokens.")}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    room = room_of(path)
    rooms = imported_rooms(ast.parse(path.read_text())) & FLOORS.keys()
    upward = {other for other in rooms if other != room and FLOORS[other] >= FLOORS[room]}
    assert not upward, f"{room} (floor {FLOORS[room]}) imports {upward}"


def test_theory_and_text_never_meet() -> None:
    for path in MODULES:
        rooms = imported_rooms(ast.parse(path.read_text()))
        theory = room_of(path) in {"dynamics", "attention", "problem"}
        assert not (theory and "text" in rooms), path
        assert not (room_of(path) == "text" and rooms & {"dynamics", "attention", "problem"}), path


def test_every_room_has_a_floor() -> None:
    assert {room_of(path) for path in MODULES} == FLOORS.keys()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_stay_under_400_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 400
