// Nothing: what CMakeLists.txt precompiles for the tests needs a target to belong to.
