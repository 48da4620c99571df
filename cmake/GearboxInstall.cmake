# The installed tree: programs, plugins, and the SDK (headers + find_package(gearbox)).
