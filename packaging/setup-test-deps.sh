#!/bin/sh
# Install what the live tests need besides Python, on Debian and its kin. Skips what is there.
#
# Without root, or on another system, it names what then is not tested, and exits 0: the tests that need a missing
# program say so themselves.
set -eu

# command : Debian package : what is tested with it
needed='
nginx:nginx-light:requests to a real HTTPS upstream with a CA of its own
prometheus:prometheus:collections and queries on a real Prometheus
etcd:etcd-server:reads and writes on a real etcd
git:git:clones and pushes over HTTPS through nginx
fcgiwrap:fcgiwrap:the same, for its git-http-backend
tmux:tmux:the terminal UI as a human drives it
sshd:openssh-server:SSH commands and transfers on real servers
ssh:openssh-client:the speed of SSH commands against the common client
gnome-keyring-daemon:gnome-keyring:the OS keyring as a home of the seeds of the audit log and as its anchor
dbus-daemon:dbus:likewise, on a session bus of its own
/lib/systemd/systemd-journal-remote:systemd-journal-remote:the audit log beside a journal, in speed and in what is noticed
pinentry-curses:pinentry-curses:asking for the passphrase by a dialog in the terminal
pinentry-tty:pinentry-tty:likewise, by a line
strace:strace:that the record which power cuts are played from leaves out no call
Xvfb:xvfb:desktop notices of waiting cards, as a human sees them
dunst:dunst:the same, by a real notification daemon
dunstctl:dunst:likewise
xdotool:xdotool:the same, with a mouse
import:imagemagick:pictures of those notices
identify:imagemagick:likewise
/usr/lib/python3/dist-packages/dbusmock/__main__.py:python3-dbusmock:locks of the vault at screen lock and suspend
systemd-analyze:systemd:the syntax and the sandbox of the systemd units
dash:dash:wrapped remote commands under that login shell
busybox:busybox:the same under its ash
zsh:zsh:the same under zsh
tcsh:tcsh:the same under csh and tcsh
fish:fish:the same under fish
mandoc:mandoc:the manual page
'

missing=
while IFS=: read -r command package purpose; do
    if [ -n "$command" ] && ! PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null 2>&1 &&
        [ ! -e "$command" ]; then
        missing="$missing $package"
        echo "not installed: $command (package $package); without it not tested: $purpose" >&2
    fi
done <<EOF
$needed
EOF

if [ -z "$missing" ]; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "not root; to install them: sudo apt-get install --no-install-recommends$missing" >&2
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "no apt-get here; install the like of:$missing" >&2
    exit 0
fi
echo "installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086  # a list of words
if ! { apt-get install -qq -y --no-install-recommends $missing >/dev/null 2>&1 ||
    { apt-get update -qq && apt-get install -qq -y --no-install-recommends $missing >/dev/null; }; }; then
    echo "could not install$missing; what needs them is not tested" >&2
fi
