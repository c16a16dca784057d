#!/bin/sh
# The entry point of the image that `harness image build` builds. It takes settings like the official image:
# KAFKA_A_B is a.b, two underscores are one, three are a dash; CLUSTER_ID is the cluster's id. Only shell built-ins
# are available here.
set -eu

java=/opt/java/bin/java
config=/opt/kafka/config

jars= # sorted: Kafka 4 includes two logging bindings, and the first one is used
for jar in /opt/kafka/libs/*.jar; do
  jars=$jars${jars:+:}$jar
done

property() { # $name: set to the property of the variable $1
  rest=${1#KAFKA_}
  name=
  while [ -n "$rest" ]; do
    case $rest in
      ___*) name=$name-; rest=${rest#___}; continue ;;
      __*) name=${name}_; rest=${rest#__}; continue ;;
    esac
    first=${rest%"${rest#?}"}
    rest=${rest#?}
    case $first in
      _) first=. ;;
      A) first=a ;; B) first=b ;; C) first=c ;; D) first=d ;; E) first=e ;; F) first=f ;; G) first=g ;;
      H) first=h ;; I) first=i ;; J) first=j ;; K) first=k ;; L) first=l ;; M) first=m ;; N) first=n ;;
      O) first=o ;; P) first=p ;; Q) first=q ;; R) first=r ;; S) first=s ;; T) first=t ;; U) first=u ;;
      V) first=v ;; W) first=w ;; X) first=x ;; Y) first=y ;; Z) first=z ;;
    esac
    name=$name$first
  done
}

write_properties() {
  export -p | while IFS= read -r line; do
    case $line in "export KAFKA_"*=*) ;; *) continue ;; esac # possibly a further line of a multi-line value
    variable=${line#export }
    variable=${variable%%=*}
    case $variable in
      *[!A-Z0-9_]*) continue ;;
      KAFKA_*OPTS | KAFKA_VERSION | KAFKA_HEAP_OPT | KAFKA_LOG4J_* | KAFKA_TOOLS_* | KAFKA_JMX_*) continue ;;
    esac
    property "$variable"
    eval "value=\${$variable-}"
    printf '%s=%s\n' "$name" "$value"
  done
}

: "${KAFKA_LOG_DIRS:=/tmp/kraft-combined-logs}"
export KAFKA_LOG_DIRS
logging="-Dlog4j2.configurationFile=file:$config/log4j2.properties -Dlog4j.configuration=file:$config/log4j.properties"

write_properties >"$config/server.properties"
if [ ! -e "${KAFKA_LOG_DIRS%%,*}/meta.properties" ]; then
  # shellcheck disable=SC2086  # several words each
  "$java" $logging -Xmx256m -XX:TieredStopAtLevel=1 -cp "$jars" kafka.tools.StorageTool \
    format --ignore-formatted -t "$CLUSTER_ID" -c "$config/server.properties"
fi
# shellcheck disable=SC2086
exec "$java" ${KAFKA_HEAP_OPTS:--Xms256m -Xmx1g} ${KAFKA_JVM_PERFORMANCE_OPTS:-} \
  ${KAFKA_LOG4J_OPTS:-$logging} ${KAFKA_OPTS:-} -XX:+ExitOnOutOfMemoryError -Djava.awt.headless=true \
  -cp "$jars" kafka.Kafka "$config/server.properties"
