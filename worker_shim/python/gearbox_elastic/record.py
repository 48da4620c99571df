"""Record: what a group must not forget: the plan and epoch it has committed to, and the highest term it has obeyed.

One file, replaced whole: written beside, synced, renamed, and the folder synced. Who starts again begins in the recorded plan.
"""
import json
import os


class Record:
    """Errors of write(): OSError. Without a folder it remembers only while it lives. Threads: write() from one at a time."""

    def __init__(self, folder):
        self._path = os.path.join(folder, "gear.json") if folder else None
        self.plan, self.epoch, self.term = None, 0, 0
        if self._path:
            os.makedirs(folder, exist_ok=True)
            try:
                with open(self._path, encoding="utf-8") as file:
                    kept = json.load(file)
                self.plan, self.epoch, self.term = kept["plan"], int(kept["epoch"]), int(kept["term"])
            except FileNotFoundError:
                pass
            except (ValueError, KeyError, TypeError) as error:
                # Never half written by us: whoever damaged it, beginning in the first gear again beats not beginning.
                os.replace(self._path, self._path + ".damaged")
                print(f"gearbox_elastic: event=record_damaged file={self._path} error={error}", flush=True)

    def write(self, plan, epoch, term):
        """Durable when it returns; nothing has changed when it raises."""
        if self._path:
            beside = self._path + ".new"
            with open(beside, "w", encoding="utf-8") as file:
                json.dump({"plan": plan, "epoch": epoch, "term": term}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._path)
            folder = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self.plan, self.epoch, self.term = plan, epoch, term
