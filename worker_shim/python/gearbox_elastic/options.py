"""Options of a group, as engine.toml beside a model names them. Unknown keys and wrong values are errors that name the key."""
import dataclasses
import ipaddress
import os
import typing

from .hosts import read_hosts


@dataclasses.dataclass
class Options:
    checkpoint: str = ""                 # llama2.c's or GGUF; relative to the file
    tokenizer: str = ""                  # llama2.c's; a GGUF file brings its own
    random: typing.Optional[dict] = None  # {seed, and the fields of a shape}: write a random checkpoint where there is none
    template: str = ""                   # what the prompt stands in, as {prompt}: for models that were trained on dialogues
    defaults: typing.Optional[dict] = None  # of requests: max_tokens, temperature, top_p, seed, stop, ignore_end
    context: int = 0                     # the longest sequence; 0: the model's
    ranks: int = 4                       # of the whole group
    role: str = ""                       # ranks: this model lends processes to groups on other hosts, and answers nobody
    hosts: typing.Optional[list] = None  # [{name, ranks, group}]: other hosts that have the last of the ranks
    node_socket: str = ""                # where streams to other hosts begin: the node's
    drivers: typing.Optional[list] = None  # of role = "ranks": the nodes whose groups may have processes here
    address: str = "127.0.0.1"           # numeric: where ranks of this host listen for those of others, not encrypted
    host_limit_s: float = 10.0           # so long a host that is lost is waited for; then the group goes on without it
    gear: int = 1                        # the plan of the first start; later the recorded one
    plan: typing.Optional[dict] = None   # in place of a gear
    shares: typing.Optional[list] = None  # what each rank carries beside the others
    spares: int = 1                      # processes that wait to take the place of a rank that dies
    cache_mb: float = 64.0               # of each rank
    memory_mb: int = 0                   # of weights and buffers of each rank; 0: not bounded
    max_running: int = 32                # sequences that hold cache
    max_waiting: int = 1024              # sequences that wait; more are refused
    prefill_rows: int = 256              # rows of one step, at most
    collective: str = "auto"             # auto, shared, gloo
    engine: str = "gearbox_elastic.llama_engine:LlamaEngine"
    state: str = ""                      # folder of the commit record; empty: none is kept
    control: str = ""                    # path of the control socket; empty: none
    python: str = ""                     # of the ranks; empty: this one
    price_limit_s: float = 2.0           # a rank that has not answered by then is taken for a no
    prepare_limit_s: float = 120.0
    step_limit_s: float = 20.0           # a step that takes longer is taken for hung: ranks that do not answer are replaced
    start_limit_s: float = 120.0
    most_deaths: int = 20                # of ranks within 60 s; then the group gives up

    @classmethod
    def of_dict(cls, values, folder="", place="engine options"):
        known = {field.name: field for field in dataclasses.fields(cls)}
        for key, value in values.items():
            if key not in known:
                raise ValueError(f"{place}: unknown key '{key}'")
            default = known[key].default
            kinds = (int, float) if isinstance(default, float) else type(default) if default is not None else (dict, list)
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise ValueError(f"{place}: {key} = {value!r} is of the wrong type")
        made = cls(**values)
        for key, low, high in (("ranks", 1, 64), ("spares", 0, 8), ("context", 0, 1 << 24), ("max_running", 1, 4096), ("max_waiting", 1, 1 << 20), ("prefill_rows", 1, 65536),
                               ("cache_mb", 0.01, 1 << 20), ("memory_mb", 0, 1 << 20), ("most_deaths", 1, 1000)):
            if not low <= getattr(made, key) <= high:
                raise ValueError(f"{place}: {key} = {getattr(made, key)} is not from {low} to {high}")
        made.check_hosts(place)
        if made.collective not in ("auto", "shared", "gloo"):
            raise ValueError(f"{place}: collective = {made.collective!r} is none of auto, shared, gloo")
        for key in ("checkpoint", "tokenizer", "state", "control"):
            if getattr(made, key) and not getattr(made, key).startswith("package:"):
                setattr(made, key, os.path.join(folder, os.path.expanduser(getattr(made, key))))
        return made


    def check_hosts(self, place):
        if self.role not in ("", "ranks"):
            raise ValueError(f"{place}: role = {self.role!r} is not 'ranks'")
        try:
            ipaddress.ip_address(self.address)
        except ValueError:
            raise ValueError(f"{place}: address = {self.address!r} is no numeric address") from None
        for key in ("hosts", "drivers"):
            if not isinstance(getattr(self, key), (list, type(None))):
                raise ValueError(f"{place}: {key} is no list")
        read_hosts(self.hosts or [], self.ranks, place)
        if self.hosts and (self.role or self.collective == "shared"):
            raise ValueError(f"{place}: hosts: not together with role, or collective = 'shared'")
        if self.role and not all(isinstance(name, str) for name in self.drivers or [None]):
            raise ValueError(f"{place}: role = 'ranks' needs drivers = [names of nodes]")
        if not 0 <= self.host_limit_s <= 3600:
            raise ValueError(f"{place}: host_limit_s = {self.host_limit_s} is not from 0 to 3600")


def read_options(path):
    """Errors: OSError, ValueError (also of TOML itself), each with the file's name."""
    import tomllib
    with open(path, "rb") as file:
        try:
            values = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path}: {error}") from None
    return Options.of_dict(values, os.path.dirname(os.path.abspath(path)), os.fspath(path))
