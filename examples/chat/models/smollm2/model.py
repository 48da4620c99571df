from gearbox_elastic.model import Model  # noqa: F401  (the class that the record names)
