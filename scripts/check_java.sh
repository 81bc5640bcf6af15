#!/usr/bin/env bash
# Fails and explains what to install unless the Java that Spark will start is new enough.
# Spark looks in the same order: JAVA_HOME first, then java on the PATH.
set -euo pipefail

needed=17
java=${JAVA_HOME:+$JAVA_HOME/bin/}java

# On macOS java may be a stub that only prints where to download one: no version, found=0.
found=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || true
if (( ${found:-0} >= needed )); then
    exit 0
fi

if [[ -n ${found:-} ]]; then
    problem="'$java' is older than that"
elif [[ -n ${JAVA_HOME:-} ]]; then
    problem="JAVA_HOME is '$JAVA_HOME', which has no usable bin/java"
else
    problem="no usable 'java' is on the PATH"
fi

cat >&2 <<EOF
Spark needs Java $needed or newer, and $problem. Install one:

  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
                   (openjdk-21-jre-headless where 17 is no longer offered)
  macOS            brew install openjdk@17
                   export JAVA_HOME="\$(brew --prefix openjdk@17)/libexec/openjdk.jdk/Contents/Home"

If it is already installed, set JAVA_HOME to its directory.
EOF
exit 1
