"""Completion of `vse` in shells: `source <(vse --print-completion bash)`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

COMPLETION = "completion.json"  # presets, keys of run configurations, values; tests/unit/write_job_keys.py writes it
SHELLS = ("bash", "zsh")
_OPTIONS = ("--dry-run", "--help", "--tracking", "--workspace")
# Bash splits words at "=", so only what follows the last "=" of the typed word is completed.
_BASH = """\
_vse() {
  local line=${COMP_LINE:0:COMP_POINT} words word cut=
  read -ra words <<< "$line"
  if [[ $line == *[[:space:]] ]]; then words+=(""); fi
  word=${words[-1]}
  if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then cut="${word%"${word##*=}"}"; fi
  COMPREPLY=()
  while IFS= read -r word; do COMPREPLY+=("${word#"$cut"}"); done < <("$1" --complete "${words[@]:1}" 2> /dev/null)
  if [[ ${COMPREPLY-} == *[=.] ]]; then compopt -o nospace 2> /dev/null; fi
}
complete -o default -F _vse vse
"""
_ZSH = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
_vse() {
  local -a found
  found=(${(f)"$($words[1] --complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2> /dev/null)"})
  if (( $#found )); then
    compadd -S '' -- ${(M)found:#*[=.]}
    compadd -- ${found:#*[=.]}
  else
    compset -P '*='
    _files
  fi
}
compdef _vse vse
"""


def script(shell: str) -> str:
    """What a shell of `SHELLS` must evaluate."""
    return _ZSH if shell == "zsh" else _BASH


def listed() -> dict[str, Any]:
    """The `presets`; by key of run configurations (`run`), and by job and own key (`jobs`), its known values."""
    return json.loads(Path(__file__).with_name(COMPLETION).read_text(encoding="utf-8"))


def candidates(words: Sequence[str], jobs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The words that the last of the words after `vse` may become.

    Keys are completed group by group: `train.` stands for the keys that begin with it.

    Args:
        words: the words after `vse`; the last one is incomplete.
        jobs: by name, with their `keys` and default `preset`.
    """
    *before, partial = words or [""]
    typed = [word.replace("-", "_") for word in before]
    names = ["_".join(typed[:length]) for length in range(1, len(typed) + 1)]
    job = next((name for name in reversed(names) if name in jobs), None)
    commands = (name.split("_") for name in jobs)
    suggestions = {each[len(typed)] for each in commands if each[: len(typed)] == typed and len(each) > len(typed)}
    if job is None:
        suggestions |= set() if typed else {"--help", "--version"}
    elif before[-1] == "--preset" and jobs[job]["preset"]:
        suggestions = set(listed()["presets"])
    elif before[-1] in ("--workspace", "--tracking", "--preset"):
        suggestions = set()
    else:
        suggestions |= {*_OPTIONS, *(("--preset",) if jobs[job]["preset"] else ()), *_settings(job, jobs[job], partial)}
    return sorted(each for each in suggestions if each.startswith(partial))


def _settings(name: str, job: Mapping[str, Any], partial: str) -> Iterable[str]:
    """Keys of a job up to the next dot, and values of the key that was typed, the last one of a list."""
    catalogue = listed()
    values = dict.fromkeys((key if key.endswith(".") else f"{key}=" for key in job["keys"]), ())
    values |= {f"{key}=": choices for key, choices in catalogue["run"].items() if job["preset"]}
    values |= {f"{key}=": choices for key, choices in catalogue["jobs"].get(name, {}).items()}
    key, is_set, value = partial.partition("=")
    if is_set:
        prefix = value.rpartition(",")[0]
        return [f"{key}={prefix and f'{prefix},'}{each}" for each in values.get(f"{key}=", ())]
    above = partial[: partial.rfind(".") + 1]
    below = [key.removeprefix(above) for key in values if key.startswith(above)]
    return [above + (f"{first}." if dot else first) for first, dot, _ in (each.partition(".") for each in below)]
