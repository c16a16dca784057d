# Commands that run on a host of an ssh cluster: sh -s -- COMMAND FOLDER SUDO ..., with this script as standard input.
#
# FOLDER contains everything that belongs to a run; `look` and `survey` take the folder of all runs instead (empty: the
# default). Every command may be repeated. Output is lines of plain text; the exit code is 0 unless an error occurred,
# which is then reported on standard error.
set -u
PATH=$PATH:/usr/sbin:/sbin
command=$1
folder=$2
sudo=$3
shift 3
[ -n "$folder" ] || folder=$HOME/.kafka-log-harness

as_root() {
    if [ "$sudo" = 1 ]; then sudo -n "$@"; else "$@"; fi
}

# Whether the process of the pid file $1 is running and belongs to this folder; the pid may have been reused.
alive() {
    pid=$(cat "$folder/$1" 2>/dev/null) && [ -n "$pid" ] || return 1
    { tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF "$folder"; } 2>/dev/null
}

# Send the signal $1 to the broker and its children.
strike() {
    alive broker || return 0
    kill -s "$1" -- "-$pid" 2>/dev/null || kill -s "$1" "$pid" 2>/dev/null || true
}

# Wait until the broker has ended, at most $1 seconds.
await_end() {
    tries=$(($1 * 20))
    while alive broker; do
        [ "$tries" -gt 0 ] || return 1
        tries=$((tries - 1))
        sleep 0.05 2>/dev/null || { sleep 1; tries=$((tries - 19)); }
    done
}

# Start a program in its own session, detached from this connection. NAME ARGUMENT...: NAME is its pid file.
detach() {
    name=$1
    shift
    setsid nohup "$@" </dev/null >>"$folder/$name.log" 2>&1 &
    echo $! >"$folder/$name.tmp" && mv "$folder/$name.tmp" "$folder/$name"
}

# TOOL TABLE FROM TO in|out ADDRESS ...: drop packets of the ports FROM to TO that come from ADDRESS (in) or go to it
# (out). In iptables a table is two chains.
filter() {
    tool=$1 table=$2 from=$3 to=$4
    shift 4
    if [ "$tool" = nft ]; then
        {
            echo "add table ip $table"
            echo "add chain ip $table in { type filter hook input priority 0; }"
            echo "add chain ip $table out { type filter hook output priority 0; }"
            while [ $# -gt 0 ]; do
                case $1 in
                in)
                    echo "add rule ip $table in ip saddr $2 tcp dport $from-$to counter drop"
                    echo "add rule ip $table in ip saddr $2 tcp sport $from-$to counter drop"
                    ;;
                out) echo "add rule ip $table out ip daddr $2 tcp sport $from-$to counter drop" ;;
                esac
                shift 2
            done
        } | as_root nft -f -
        return
    fi
    for pair in INPUT:in OUTPUT:out; do
        chain=${table}_${pair#*:} hook=${pair%:*}
        as_root iptables -w 5 -N "$chain" 2>/dev/null || true
        as_root iptables -w 5 -C "$hook" -j "$chain" 2>/dev/null ||
            as_root iptables -w 5 -I "$hook" -j "$chain" || return 1
    done
    while [ $# -gt 0 ]; do
        case $1 in
        in)
            as_root iptables -w 5 -A "${table}_in" -s "$2" -p tcp --dport "$from:$to" -j DROP || return 1
            as_root iptables -w 5 -A "${table}_in" -s "$2" -p tcp --sport "$from:$to" -j DROP || return 1
            ;;
        out) as_root iptables -w 5 -A "${table}_out" -d "$2" -p tcp --sport "$from:$to" -j DROP || return 1 ;;
        esac
        shift 2
    done
}

# TOOL TABLE: remove all rules.
unfilter() {
    if [ "$1" = nft ]; then
        as_root nft list table ip "$2" >/dev/null 2>&1 || return 0
        as_root nft delete table ip "$2"
        return
    fi
    for pair in INPUT:in OUTPUT:out; do
        chain=${2}_${pair#*:} hook=${pair%:*}
        while as_root iptables -w 5 -D "$hook" -j "$chain" 2>/dev/null; do :; done
        as_root iptables -w 5 -F "$chain" 2>/dev/null || true
        as_root iptables -w 5 -X "$chain" 2>/dev/null || true
    done
}

# Remove the run's own rules; the file `filter` contains their tool and table.
open_up() {
    [ -r "$folder/filter" ] || return 0
    read -r tool table <"$folder/filter"
    unfilter "$tool" "$table"
}

halt() {
    strike KILL
    await_end 10
    open_up
}

# Describe the host, in sections; FOLDER is where runs would be stored. ARGUMENT: a table name for testing filters.
look() {
    section() { echo "== $1"; }
    section system; uname -sm
    section folder; echo "$folder"
    mkdir -p "$folder" && (umask 077 && mkdir "$folder/try.$$") && rmdir "$folder/try.$$" && echo writable
    section space; df -Pk "$folder" 2>/dev/null | tail -n 1
    rmdir "$folder" 2>/dev/null
    section memory; grep MemAvailable /proc/meminfo
    section tools
    for tool in setsid nohup tar tr grep mv tail head wc; do
        command -v "$tool" >/dev/null || echo "$tool"
    done
    for java in "${JAVA_HOME:-/nowhere}/bin/java" "$(command -v java)"; do
        [ -x "$java" ] || continue
        section "java $java"
        "$java" -XshowSettings:properties -version 2>&1
    done
    section root
    if [ "$sudo" = 1 ]; then sudo -n true 2>&1 && echo yes; elif [ "$(id -u)" = 0 ]; then echo yes; fi
    for tool in nft iptables; do
        command -v "$tool" >/dev/null || continue
        section "filter $tool"
        filter "$tool" "$1" 1 2 in 192.0.2.1 out 192.0.2.1 2>&1 && tried=yes || tried=no
        unfilter "$tool" "$1" 2>&1 && echo $tried
        [ $tried = no ] || break
    done
    section sockets; cat /proc/net/tcp /proc/net/tcp6 2>/dev/null
    section addresses; cat /proc/net/fib_trie
    section connection; echo "${SSH_CONNECTION:-}"
}

# Print the folder of all runs; "run GUARDED RUNNING LEASE TOOL TABLE SINCE FOLDER" and "table TOOL NAME" for each.
survey() {
    echo "$folder"
    for folder in "$folder"/*/; do
        folder=${folder%/}
        [ -e "$folder/host.sh" ] || continue
        guarded=no running=no tool=- table=-
        alive guard && guarded=yes
        alive broker && running=yes
        [ -r "$folder/filter" ] && read -r tool table <"$folder/filter"
        lease=$(cat "$folder/lease" 2>/dev/null)
        echo "run $guarded $running ${lease:--} $tool $table $(cat "$folder/since") $folder"
    done
    as_root nft list tables ip 2>/dev/null |
        while read -r _ _ name; do case $name in harness_ssh_*) echo "table nft $name" ;; esac; done
    as_root iptables -w 5 -S 2>/dev/null |
        while read -r option name _; do
            case $option$name in -Nharness_ssh_*_in) echo "table iptables ${name%_in}" ;; esac
        done
    return 0
}

# All commands are in one function, so that no program started here can read the rest of this script as its input.
main() {
    case $command in
    look) look "$@" ;;
    survey) survey ;;
    make) mkdir -p "${folder%/*}" && umask 077 && mkdir -p "$folder" && : >"$folder/host.sh" ;;
    guard)
        alive guard || detach guard sh "$folder/host.sh" watch "$folder" "$sudo" "$1"
        ;;
    watch)
        # If the lease is not renewed for $1 seconds, end the broker and remove the packet filters.
        silent=0 last=
        while [ "$silent" -lt "$1" ]; do
            sleep 1
            now=$(cat "$folder/lease" 2>/dev/null) || exit 0
            silent=$((silent + 1))
            [ "$now" = "$last" ] || silent=0
            last=$now
        done
        halt
        ;;
    renew) [ -d "$folder" ] && echo "$1" >"$folder/lease" ;;
    start) alive broker || detach broker sh "$folder/broker.sh" ;;
    signal) strike "$1" ;;
    end)
        strike "$1"
        await_end "$2" || { echo "the broker is still running" >&2; exit 1; }
        ;;
    running) if alive broker; then echo yes; else echo no; fi ;;
    filter) echo "$1 $2" >"$folder/filter" && filter "$@" ;;
    heal) open_up ;;
    unfilter) unfilter "$@" ;;
    dropped)
        if [ "$1" = nft ]; then
            as_root nft list table ip "$2" 2>/dev/null
        else
            as_root iptables -w 5 -nvxL "${2}_in" 2>/dev/null
            as_root iptables -w 5 -nvxL "${2}_out" 2>/dev/null
        fi
        exit 0
        ;;
    logs)
        cd "$folder" || exit 1
        for name in server.log broker.log guard.log server.properties log4j2.properties log4j.properties; do
            [ -s "$name" ] && set -- "$@" "$name"
        done
        [ $# -eq 0 ] || tar -cf - "$@"
        ;;
    size) wc -c <"$folder/server.log" 2>/dev/null || echo 0 ;;
    from) tail -c "+$1" "$folder/server.log" 2>/dev/null | head -c "$2" ;;
    words) cd "$folder" && tail -qn 200 broker.log server.log 2>/dev/null ;;
    remove)
        if alive guard; then kill -s KILL -- "-$pid" 2>/dev/null || kill -s KILL "$pid"; fi
        halt && { rm -rf "$folder" 2>/dev/null || rm -rf "$folder"; } # a lease renewal may interfere: try twice
        code=$?
        rmdir "${folder%/*}" 2>/dev/null
        exit $code
        ;;
    *)
        echo "unknown command $command" >&2
        exit 2
        ;;
    esac
}

main "$@" </dev/null
