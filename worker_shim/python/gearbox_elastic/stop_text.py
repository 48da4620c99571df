"""StopText: ends a text at the first of some stop words, though they come in pieces."""


class StopText:
    """Feed it bytes as they come; it gives what may go out. A piece that may be the beginning of a stop word is held back."""

    def __init__(self, stops):
        self._stops = [stop for stop in stops if stop]
        self._held = b""
        self.over = False

    def feed(self, piece):
        text = self._held + piece
        at = min((place for place in (text.find(stop) for stop in self._stops) if place >= 0), default=-1)
        if at >= 0:
            self.over, self._held = True, b""
            return text[:at]
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for size in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self._stops):
                self._held = text[-size:]
                return text[:-size]
        self._held = b""
        return text

    def rest(self):
        """What was held back, once no more comes."""
        held, self._held = self._held, b""
        return held
