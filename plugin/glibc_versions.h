// SPDX-License-Identifier: Apache-2.0
// Included into each file of the library by the compiler (plugin/CMakeLists.txt). glibc 2.32 and 2.34 gave these
// functions a newer version; in Debian 12's both are the same code. With the first one the library loads on RHEL 8 too.
// tests/checks/plugin_library_test.py fails when the library needs a newer version, for example by another function.
#pragma once

// The version that glibc's first release for the architecture gave them.
#if defined(__x86_64__)
#define ST_FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define ST_FIRST_GLIBC "GLIBC_2.17"
#endif

#ifdef ST_FIRST_GLIBC
#define ST_OF_FIRST_GLIBC(function) __asm__(".symver " #function ", " #function "@" ST_FIRST_GLIBC)

ST_OF_FIRST_GLIBC(dladdr);
ST_OF_FIRST_GLIBC(dlclose);
ST_OF_FIRST_GLIBC(dlerror);
ST_OF_FIRST_GLIBC(dlopen);
ST_OF_FIRST_GLIBC(dlsym);
ST_OF_FIRST_GLIBC(pthread_attr_setstacksize);
ST_OF_FIRST_GLIBC(pthread_create);
ST_OF_FIRST_GLIBC(pthread_join);
ST_OF_FIRST_GLIBC(pthread_mutex_trylock);
ST_OF_FIRST_GLIBC(pthread_sigmask);

#undef ST_OF_FIRST_GLIBC
#undef ST_FIRST_GLIBC
#endif
