"""Lines of the worker's log: event=NAME key=value ..."""
import sys


def log(event, **fields):
    print(f"gearbox_elastic: event={event} " + " ".join(f"{key}={value}" for key, value in fields.items()), file=sys.stderr, flush=True)
