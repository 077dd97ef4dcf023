# Cross-compile for 64-bit Arm Linux; what is built runs under qemu-user:
#   cmake -S . -B build -DCMAKE_TOOLCHAIN_FILE=csrc/cmake/aarch64.cmake -DENGINE_PYTHON=OFF -DENGINE_TESTS=ON
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
