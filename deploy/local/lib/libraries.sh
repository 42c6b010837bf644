# shellcheck shell=bash
# libmicrohttpd and hiredis, built statically from Debian's newer source packages into $deps/{include,lib}. Sourced, never run.

libraries_suite=forky
libmicrohttpd_least=1.0.10
hiredis_least=1.2.0
library_cflags="-O2 -g -fPIC -fno-omit-frame-pointer -fstack-protector-strong -D_FORTIFY_SOURCE=2"
# Nothing that the service does not use: what is not built cannot be attacked.
libmicrohttpd_flags=(--disable-shared --enable-static --with-pic --enable-https --enable-epoll --disable-doc --disable-examples
  --disable-tools --disable-curl --disable-dauth --disable-bauth --disable-postprocessor --disable-httpupgrade --disable-nls)

# What the built libraries depend on: built again only when this changes.
libraries_key() {
  printf '%s\n' "$(dpkg --print-architecture)" "$libraries_suite libmicrohttpd>=$libmicrohttpd_least hiredis>=$hiredis_least" \
    "$library_cflags" "${libmicrohttpd_flags[*]}"
}

libraries_ready() {
  [ -e "$deps/lib/libhiredis_ssl.a" ] && [ "$(libraries_key)" = "$(cat "$deps/libraries.key" 2>/dev/null)" ]
}

build_libraries() {
  local work
  work=$(mktemp -d "$deps/work.XXXXXX")
  (
    cd "$work"
    open_suite deb-src "$libraries_suite" ||
      die "the Debian suite $libraries_suite cannot be reached with this machine's apt sources and the libraries are not cached (make SYSTEM_LIBS=1 builds with the distribution's)"
    fetch_source libmicrohttpd "$libmicrohttpd_least"
    fetch_source hiredis "$hiredis_least"
    mkdir -p out/include out/lib
    build_libmicrohttpd
    build_hiredis
    rm -rf "${deps:?}/include" "${deps:?}/lib"
    mv out/include out/lib "$deps/"
    libraries_key >"$deps/libraries.key"
  )
  rm -rf "$work"
}

# fetch_source PACKAGE LEAST: the suite's source package, patched, in ./PACKAGE. apt has checked the files against the signed
# index; the maintainer's own signature is on top of that and its key is on no machine, hence --no-check.
fetch_source() {
  local package=$1 least=$2 version
  version=$(apt-cache "${apt_options[@]}" showsrc --only-source "$package" 2>>"$setup_log" | sed -n 's/^Version: //p' | sort -V | tail -n 1)
  [ -n "$version" ] || die "the Debian suite $libraries_suite has no source package $package"
  version_at_least "$version" "$least" || die "$package $version of the Debian suite $libraries_suite is older than $least"
  logged "downloading $package" apt-get "${apt_options[@]}" source --download-only --only-source "$package=$version"
  logged "unpacking $package" dpkg-source --no-check -x "${package}_${version#*:}.dsc" "$package"
}

build_libmicrohttpd() {
  (
    cd libmicrohttpd
    # Debian's patch is newer than the generated files, which would ask for autotools; the patched tests are not built.
    find . -name Makefile.am -exec touch -r configure {} + -o -name Makefile.in -exec touch {} +
    logged "configuring libmicrohttpd" ./configure --quiet --prefix="$work/prefix" CFLAGS="$library_cflags" "${libmicrohttpd_flags[@]}"
    logged "building libmicrohttpd" make -j"$(nproc)" -C src/microhttpd libmicrohttpd.la
    cp src/microhttpd/.libs/libmicrohttpd.a "$work/out/lib/"
    cp src/include/microhttpd.h "$work/out/include/"
  )
}

build_hiredis() {
  (
    cd hiredis
    logged "building hiredis" make -j"$(nproc)" static USE_SSL=1 OPTIMIZATION="$library_cflags" DEBUG= WARNINGS=-w
    cp libhiredis.a libhiredis_ssl.a "$work/out/lib/"
    mkdir -p "$work/out/include/hiredis"
    cp hiredis.h hiredis_ssl.h async.h async_private.h alloc.h net.h read.h sds.h sockcompat.h "$work/out/include/hiredis/"
  )
}
