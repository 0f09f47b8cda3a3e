/* A stand-in for the hub that models are uploaded to: as much of its HTTP interface as `hf upload` uses, on a port of
 * 127.0.0.1 that the system picks. One connection at a time, one request each; ends with its standard input.
 *
 *	hub DIR [N] <pipe
 *
 * DIR/port          the port, once it listens
 * DIR/log           a line for each request: method, path, status, token
 * DIR/commit-K      the body of the K-th commit that was taken: JSON lines, files in base64
 * The first N commits are answered with 500. */
#include "base/file.h"
#include "base/str.h"
#include <arpa/inet.h>
#include <jv.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

struct hub {
	const char *dir;
	int n_fail, n_commits;
};

struct request {
	char method[16], path[1024], token[256];
	struct spar_str body;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void write_file(const struct hub *hub, const char *name, const char *bytes, size_t n)
{
	struct spar_err err;
	char *path = spar_path_join(hub->dir, name);
	if (spar_file_write(path, bytes, n, &err) < 0)
		exit(spar_die("hub", &err));
	free(path);
}

/* A line of the head without its end; false when the connection has ended. */
static bool read_line(FILE *in, char *line, size_t n)
{
	if (!fgets(line, (int)n, in))
		return false;
	line[strcspn(line, "\r\n")] = 0;
	return true;
}

static bool read_request(FILE *in, struct request *r)
{
	char line[8192];
	size_t length = 0;
	*r = (struct request){.body = SPAR_STR_INIT};
	if (!read_line(in, line, sizeof line) || sscanf(line, "%15s %1023s", r->method, r->path) != 2)
		return false;
	while (read_line(in, line, sizeof line) && *line) {
		if (!strncasecmp(line, "content-length:", 15))
			length = strtoull(line + 15, NULL, 10);
		if (!strncasecmp(line, "authorization: bearer ", 22))
			snprintf(r->token, sizeof r->token, "%.255s", line + 22);
	}
	spar_str_reserve(&r->body, length);
	r->body.len = fread(r->body.data, 1, length, in);
	r->body.data[r->body.len] = 0;
	return r->body.len == length;
}

/* How each file is to come: within the commit. */
static void answer_preupload(const struct request *r, struct spar_str *out)
{
	jv files = jv_object_get(jv_parse(r->body.data), jv_string("files")), answers = jv_array();
	int n = jv_get_kind(files) == JV_KIND_ARRAY ? jv_array_length(jv_copy(files)) : 0;
	for (int i = 0; i < n; i++) {
		jv one = jv_object_set(jv_object(), jv_string("uploadMode"), jv_string("regular"));
		one = jv_object_set(one, jv_string("shouldIgnore"), jv_false());
		one = jv_object_set(one, jv_string("path"),
				    jv_object_get(jv_array_get(jv_copy(files), i), jv_string("path")));
		answers = jv_array_append(answers, one);
	}
	jv_free(files);
	jv text = jv_dump_string(jv_object_set(jv_object(), jv_string("files"), answers), 0);
	spar_str_adds(out, jv_string_value(text));
	jv_free(text);
}

static int answer_commit(struct hub *hub, const struct request *r, struct spar_str *out)
{
	char name[32];
	if (hub->n_fail-- > 0) {
		spar_str_adds(out, "{\"error\":\"not today\"}");
		return 500;
	}
	snprintf(name, sizeof name, "commit-%d", ++hub->n_commits);
	write_file(hub, name, r->body.data, r->body.len);
	spar_str_addf(
	    out,
	    "{\"success\":true,\"commitUrl\":\"https://huggingface.co/me/repo/commit/%d\",\"commitOid\":\"%040d\","
	    "\"hookOutput\":\"\"}",
	    hub->n_commits, hub->n_commits);
	return 200;
}

/* The status; the body is appended to `out`. */
static int answer(struct hub *hub, const struct request *r, struct spar_str *out)
{
	bool post = !strcmp(r->method, "POST");
	if (post && strstr(r->path, "/preupload/"))
		answer_preupload(r, out);
	else if (post && strstr(r->path, "/commit/"))
		return answer_commit(hub, r, out);
	else if (post && !strcmp(r->path, "/api/repos/create"))
		spar_str_adds(out, "{\"url\":\"https://huggingface.co/me/repo\",\"name\":\"repo\",\"id\":\"me/repo\"}");
	else if (post && !strcmp(r->path, "/api/validate-yaml"))
		spar_str_adds(out, "{\"errors\":[],\"warnings\":[]}");
	else if (!strncmp(r->path, "/api/models/", 12))
		spar_str_adds(out, "{\"id\":\"me/repo\",\"sha\":\"0\",\"siblings\":[]}");
	else {
		spar_str_adds(out, "{\"error\":\"no such thing\"}");
		return 404;
	}
	return 200;
}

static void serve(struct hub *hub, int fd, FILE *log)
{
	struct request r;
	struct spar_str body = SPAR_STR_INIT;
	FILE *io = fdopen(fd, "r+");
	if (!io)
		die("fdopen");
	if (read_request(io, &r)) {
		int status = answer(hub, &r, &body);
		fprintf(log, "%s %s %d %s\n", r.method, r.path, status, r.token);
		fflush(log);
		fseek(io, 0, SEEK_CUR); /* between reading and writing */
		fprintf(io,
			"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
			"Connection: close\r\n\r\n%s",
			status, status == 200 ? "OK" : "Error", body.len, body.data);
	}
	spar_str_release(&r.body);
	spar_str_release(&body);
	fclose(io);
}

static int listen_somewhere(const struct hub *hub)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof at;
	char port[16];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 16) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &size) < 0)
		die("listen");
	snprintf(port, sizeof port, "%d\n", ntohs(at.sin_port));
	write_file(hub, "port", port, strlen(port));
	return fd;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	struct hub hub = {.dir = argv[1], .n_fail = argc > 2 ? atoi(argv[2]) : 0};
	char *path = spar_path_join(hub.dir, "log");
	FILE *log = fopen(path, "a");
	if (!log)
		die(path);
	struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
				{.fd = listen_somewhere(&hub), .events = POLLIN}};
	while (poll(fds, 2, -1) > 0 && !fds[0].revents)
		if (fds[1].revents)
			serve(&hub, accept(fds[1].fd, NULL, NULL), log);
	fclose(log);
	free(path);
	return 0;
}
