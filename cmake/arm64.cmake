# SPDX-License-Identifier: Apache-2.0
# Toolchain: cross-builds for arm64 on Debian, with its cross compiler and the arm64 libraries that lie beside the host's
# (multiarch; scripts/packages_arm64.txt). Header-only libraries, clang and bpftool are the host's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_ASM_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_STRIP aarch64-linux-gnu-strip)

# find_library looks into /usr/lib/aarch64-linux-gnu, never into the host's folder.
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)

# ctest runs test programs by it. Not required: without it only the building works.
find_program(STALLTRACE_EMULATOR qemu-aarch64-static)
if(STALLTRACE_EMULATOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${STALLTRACE_EMULATOR})
endif()
