// The target that precompiles the unit tests' common headers needs a source; what it compiles is in
// tests/CMakeLists.txt.
int main() { return 0; }
