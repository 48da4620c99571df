"""A rank host by itself, as another host has it: options as JSON, the path of its socket. Prints "ready"; ends with its input."""
import json
import sys

from gearbox_elastic.checkpoint_digest import checkpoint_digest
from gearbox_elastic.options import Options
from gearbox_elastic.rank_host import RankHost

options = Options.of_dict(json.loads(sys.argv[1]))
host = RankHost(options, {"checkpoint": options.checkpoint, "digest": checkpoint_digest(options.checkpoint), "address": options.address},
                sys.argv[2])
print("ready", flush=True)
sys.stdin.read()
host.close()
