infer = None
