# SPDX-License-Identifier: Apache-2.0
# The oldest version of each library that the program was built and tested with: Debian 12's. An older one may lack a function, or a
# correction that hostile input needs. Read from the library's own header, so that it works for cross-builds too.
include(CheckCXXSourceCompiles)

# stalltrace_needs(NAME VERSION HEADER CONDITION): ends the configuration if `#if CONDITION` is false behind HEADER.
function(stalltrace_needs name version header condition)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  set(CMAKE_REQUIRED_QUIET ON)
  string(MAKE_C_IDENTIFIER "STALLTRACE_HAS_${name}_${version}" found)
  check_cxx_source_compiles("#include <${header}>\n#if !(${condition})\n#error older\n#endif\n" ${found})
  if(NOT ${found})
    unset(${found} CACHE)  # asked again once it is installed
    message(FATAL_ERROR "${name} ${version} or newer is needed (header ${header}): run scripts/install_packages.sh")
  endif()
endfunction()

stalltrace_needs(SQLite 3.40 sqlite3.h "SQLITE_VERSION_NUMBER >= 3040000")
stalltrace_needs(fmt 9.1 fmt/core.h "FMT_VERSION >= 90100")
stalltrace_needs(Boost 1.81 boost/version.hpp "BOOST_VERSION >= 108100")
stalltrace_needs(OpenSSL 3.0 openssl/opensslv.h "OPENSSL_VERSION_NUMBER >= 0x30000000L")
stalltrace_needs(zstd 1.5.4 zstd.h "ZSTD_VERSION_NUMBER >= 10504")
stalltrace_needs(zlib 1.2.13 zlib.h "ZLIB_VERNUM >= 0x12d0")
stalltrace_needs(libbpf 1.1 bpf/libbpf_version.h "LIBBPF_MAJOR_VERSION > 1 || LIBBPF_MINOR_VERSION >= 1")
stalltrace_needs(elfutils 0.188 elfutils/version.h "_ELFUTILS_PREREQ(0, 188)")
stalltrace_needs(nlohmann-json 3.11 nlohmann/detail/abi_macros.hpp
  "NLOHMANN_JSON_VERSION_MAJOR > 3 || NLOHMANN_JSON_VERSION_MINOR >= 11")
stalltrace_needs(tomlplusplus 3.3 toml++/impl/preprocessor.h "TOML_LIB_MAJOR > 3 || TOML_LIB_MINOR >= 3")
