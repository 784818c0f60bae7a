"""`pqlab completion`: what a shell needs to complete verbs, options, scenarios, overlays and bundles.

Made from the command line's own parser, so that it cannot fall behind it. Names of scenarios, overlays,
bundles and runs are looked up in the checkout when they are asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from shlex import quote

from pqevidence.errors import EXIT_OK
from pqevidence.paths import project_root
from pqlab.cli.common import print_json

HELP = 'print the completion of a shell: eval "$(./pqlab completion bash)"'
#: how an argument calls itself → what it is completed by; of the rest nothing is known
_KINDS = {
    "SCENARIO": "scenarios", "OVERLAY": "overlays", "RUN_ID": "runs",
    "BUNDLE": "bundles", "A": "bundles", "B": "bundles", "PROFILE": "overlays",
    "FILE": "files", "DIR": "files", "FOLDER": "files", "LOG": "files", "KEY": "files", "ARCHIVE": "files",
}  # fmt: skip
_FOLDERS = {
    "scenarios": ("scenarios", r"s/\.yml$//p"),
    "overlays": ("scenarios/overlays", r"s/\.yml$//p"),
    "bundles": ("results", r"s:^\(2[^/]*\)/$:\1:p"),
    "runs": ("results/.work", r"s:^\(2[^/]*\)/$:\1:p"),
}


@dataclass(frozen=True)
class Word:
    """One option or positional argument: its spellings (none of a positional), what it says, what follows;
    many: a positional that may come again and again."""

    spellings: tuple[str, ...]
    text: str
    takes_value: bool
    kind: str
    many: bool = False


@dataclass(frozen=True)
class Verb:
    """One verb and all that may follow it."""

    name: str
    text: str
    words: tuple[Word, ...]

    @property
    def options(self) -> list[str]:
        """Every spelling of every option."""
        return [spelling for word in self.words for spelling in word.spellings]

    @property
    def positional(self) -> str:
        """What stands beside the options, of the first argument that is none; empty where there is none."""
        return next((word.kind for word in self.words if not word.spellings), "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=sorted(_SHELLS), metavar="SHELL", help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    """Prints the script; always 0."""
    text = "\n".join(_SHELLS[args.shell](list(verbs()))) + "\n"
    if args.json:
        print_json({"shell": args.shell, "script": text})
    else:
        print(text, end="")
    return EXIT_OK


def verbs() -> Iterator[Verb]:
    """Every verb of the command line, as its parser has it."""
    from pqlab.cli.main import build_parser

    for action in build_parser()._actions:  # argparse has no other way to ask
        if not isinstance(action, argparse._SubParsersAction):
            continue
        help_of = {choice.dest: str(choice.help) for choice in action._choices_actions}
        for name, parser in action.choices.items():
            yield Verb(name, help_of[name], tuple(_word(inner) for inner in parser._actions))


def _word(action: argparse.Action) -> Word:
    kind = " ".join(map(str, action.choices)) if action.choices else _KINDS.get(str(action.metavar), "")
    text = str(action.help or "").partition(";")[0].replace("%%", "%")
    many = not action.option_strings and action.nargs in ("*", "+")
    return Word(tuple(action.option_strings), text, action.nargs != 0, kind, many)


def _lookup(kind: str, variable: str) -> str:
    """The command that prints the names of one kind, in every shell."""
    folder, pattern = _FOLDERS[kind]
    return f"command ls -1p {variable}/{folder} 2>/dev/null | sed -n '{pattern}'"


def _posix_names() -> list[str]:
    root = '"$root"'
    cases = [f"        {kind}) {_lookup(kind, root)} ;;" for kind in _FOLDERS]
    return [
        "_pqlab_names() { # KIND, or the words themselves",
        f"    local root={quote(str(project_root()))}",
        '    case "$1" in',
        *cases,
        "        files) ;;",
        '        *) printf "%s\\n" "$1" | tr " " "\\n" ;;',
        "    esac",
        "}",
    ]


def _valued(verb: Verb) -> dict[str, list[str]]:
    """Kind of value → the options of a verb that are followed by one."""
    found: dict[str, list[str]] = {}
    for word in verb.words:
        if word.spellings and word.takes_value:
            found.setdefault(word.kind or "files", []).extend(word.spellings)
    return found


def _bash(known: list[Verb]) -> list[str]:
    """A function for `complete`; where it has no answer, bash completes files by itself."""
    names = " ".join(verb.name for verb in known)
    lines = [
        '# pqlab in bash; to keep it, put into ~/.bashrc: eval "$(CHECKOUT/pqlab completion bash)"',
        *_posix_names(),
        "_pqlab() {",
        '    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} kind="" options=""',
        '    if [ "$COMP_CWORD" -eq 1 ]; then',
        f'        COMPREPLY=($(compgen -W "{names} --help --version" -- "$word"))',
        "        return",
        "    fi",
        '    case "${COMP_WORDS[1]} $before" in',
    ]
    for verb in known:
        for kind, spellings in _valued(verb).items():
            places = " | ".join(f'"{verb.name} {spelling}"' for spelling in spellings)
            lines.append(f'        {places}) kind="{kind}" ;;')
    lines += ["    esac", '    if [ -z "$kind" ]; then', '        case "${COMP_WORDS[1]}" in']
    for verb in known:
        kind, options = verb.positional or "files", " ".join(verb.options)
        lines.append(f'            {verb.name}) kind="{kind}" options="{options}" ;;')
    return [
        *lines,
        "        esac",
        '        if [[ "$word" == -* ]]; then kind="$options"; fi',
        "    fi",
        '    COMPREPLY=($(compgen -W "$(_pqlab_names "$kind")" -- "$word"))',
        "}",
        "complete -o default -F _pqlab pqlab",
    ]


def _zsh(known: list[Verb]) -> list[str]:
    """A function for `compdef`; zsh shows what each verb and option does."""
    lines = [
        "#compdef pqlab",
        '# pqlab in zsh; to keep it, in ~/.zshrc after compinit: eval "$(CHECKOUT/pqlab completion zsh)"',
        *_posix_names(),
        "_pqlab_these() { # KIND",
        '    if [[ "$1" == files ]]; then _files; return; fi',
        "    local -a found",
        '    found=(${(f)"$(_pqlab_names "$1")"})',
        "    compadd -a found",
        "}",
        "_pqlab() {",
        "    local -a verbs",
        "    if (( CURRENT == 2 )); then",
        "        verbs=(",
        *(f"            {quote(f'{verb.name}:{_plain(verb.text)}')}" for verb in known),
        "        )",
        "        _describe verb verbs",
        "        return",
        "    fi",
        "    shift words",
        "    (( CURRENT-- ))",
        '    case "$words[1]" in',
    ]
    for verb in known:
        lines.append(f"        {verb.name}) _arguments \\")
        # zsh refuses a command with two rests: only the last positional may be one
        places = [word for word in verb.words if not word.spellings]
        for word in verb.words:
            place = "" if word.spellings or word.many else str(places.index(word) + 1)
            lines += [f"            {spec} \\" for spec in _zsh_specs(word, place)]
        lines.append("            ;;")
    return [*lines, "    esac", "}", "compdef _pqlab pqlab"]


def _zsh_specs(word: Word, place: str) -> Iterator[str]:
    # a blank before the command, or zsh would put words of its own between it and ours
    action = f':value: _pqlab_these "{word.kind}"' if word.kind else ":value: "
    if not word.spellings:
        yield quote(f"{place or '*'}{action}")
    for spelling in word.spellings:
        yield quote(f"*{spelling}[{_plain(word.text)}]{action if word.takes_value else ''}")


def _plain(text: str) -> str:
    """A description without what zsh would read as the end of one."""
    return text.replace("[", "(").replace("]", ")").replace(":", r"\:")


def _fish(known: list[Verb]) -> list[str]:
    """A line an option."""
    lines = [
        "# pqlab in fish; to keep it: CHECKOUT/pqlab completion fish >~/.config/fish/completions/pqlab.fish",
        "function __pqlab_names",
        f"    set -l root {_fish_quote(str(project_root()))}",
        "    switch $argv[1]",
    ]
    for kind in _FOLDERS:
        lines += [f"        case {kind}", f"            {_lookup(kind, '$root')}"]
    lines += [
        "        case '*'",
        "            string split ' ' $argv[1]",
        "    end",
        "end",
        "complete -c pqlab -f",
    ]
    for verb in known:
        lines.append(f"complete -c pqlab -n __fish_use_subcommand -a {verb.name} -d {_fish_quote(verb.text)}")
        for word in verb.words:
            parts = [f"complete -c pqlab -n '__fish_seen_subcommand_from {verb.name}'"]
            parts += [
                f"-l {spelling[2:]}" if spelling.startswith("--") else f"-s {spelling[1:]}"
                for spelling in word.spellings
            ]
            if word.spellings:
                parts.append(f"-d {_fish_quote(word.text)}")
            if word.takes_value:
                # -x: a value and no file; with -r alone fish offers files beside the names
                files = word.kind == "files" or not (word.kind or word.spellings)
                parts.append(("-r" if files else "-x") if word.spellings else "")
                parts.append("-F" if files else f"-a '(__pqlab_names \"{word.kind}\")'" if word.kind else "")
            lines.append(" ".join(filter(None, parts)))
    return lines


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_SHELLS: dict[str, Callable[[list[Verb]], list[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
