/* LACUNA_API: what a shared library shows. LACUNA_STATIC is set for users of the static one (CMake's target
   and pkg-config do so). */
#ifndef LACUNA_EXPORT_H
#define LACUNA_EXPORT_H

#if defined(LACUNA_STATIC)
#define LACUNA_API
#else
#define LACUNA_API __attribute__((visibility("default")))
#endif

#endif
