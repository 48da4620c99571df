import sys

sys.exit("bad weights")
