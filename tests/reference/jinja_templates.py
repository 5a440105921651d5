def generate(random):
    return "x", {}
