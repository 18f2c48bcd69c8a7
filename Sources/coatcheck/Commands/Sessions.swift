import ArgumentParser
import Broker

/// Lists and ends sessions of a running broker.
struct Sessions: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List and end sessions, through the management listener.", subcommands: [List.self, End.self])

    /// Keeps only printable ASCII and characters above U+2FFF, because other characters could move a terminal's cursor.
    ///
    /// The text may come from a provider, for example a subject.
    static func printable(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.filter { (0x20...0x7E).contains($0.value) || $0.value > 0x2FFF }))
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Print sessions, newest first: handle, provider, client, created, last used, subject, how their tokens are bound, key, kind, parent.",
            discussion: """
                `key` is the thumbprint of the device's key that a session belongs to; `kind` and `parent` are a child \
                session's. With --ended those that have ended in the last 30 days, by their end: handle, provider, client, \
                ended, reason, subject, key, kind, parent.
                """)

        @OptionGroup var defaults: ConfigDefaults
        @OptionGroup var options: ManagementClient
        @Option(help: "Only this provider's.") var provider: String?
        @Option(help: "Only this client's; needs --provider.") var client: String?
        @Option(help: "Only this subject's; needs --provider.") var subject: String?
        @Flag(help: "Those that have ended, with the reason.") var ended = false
        @Flag(help: "Only those that belong to no key of a device.") var unbound = false
        @Flag(help: "Without the line of the columns' names.") var noHeader = false

        func run() async throws {
            let management = try options.completed(by: defaults.config)
            var cursor: String?
            repeat {
                let pairs = [
                    ("provider", provider), ("client", client), ("subject", subject), ("cursor", cursor),
                    ("state", ended ? "ended" : nil), ("binding", unbound ? "none" : nil),
                ].compactMap { name, value in value.map { (name: name, value: $0) } }
                let query = pairs.isEmpty ? "" : "?" + FormPairs.encode(pairs)
                let page = try await management.call("GET", "/admin/v1/sessions" + query)
                // Print the heading after the first answer, so that a refusal has no heading.
                if cursor == nil, !noHeader { print(columns.map { $0.uppercased() }.joined(separator: "\t")) }
                for item in page?["items"]?.array ?? [] { print(line(item.object)) }
                cursor = page?["next_cursor"]?.string
            } while cursor != nil
        }

        private var columns: [String] {
            ["handle", "provider", "client"] + (ended ? ["ended_at", "reason"] : ["created_at", "last_used_at"])
                + ["subject"] + (ended ? [] : ["sender_constrained"]) + ["key", "kind", "parent"]
        }

        private func line(_ item: JSONObject?) -> String {
            columns.map { column in
                let value = column == "key" ? item?["binding"]?.object?["jkt"] : item?[column]
                return Sessions.printable(value?.string ?? "-")
            }.joined(separator: "\t")
        }
    }

    struct End: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "End one session by its handle, or all of a subject's, a client's or a provider's.")

        @OptionGroup var defaults: ConfigDefaults
        @OptionGroup var options: ManagementClient
        @Argument(help: "The session's handle (ses_…).") var handle: String?
        @Option(help: "The provider whose sessions end.") var provider: String?
        @Option(help: "Only this client's.") var client: String?
        @Option(help: "Only this subject's.") var subject: String?
        @Flag(help: "Only those that belong to no key of a device; with --provider.") var unbound = false
        @Flag(help: "Everybody's sessions; needed where no subject is named.") var all = false

        func validate() throws {
            guard (handle != nil) != (provider != nil), handle == nil || (client == nil && subject == nil),
                client == nil || subject == nil
            else { throw ValidationError("name a handle, or --provider with at most one of --client and --subject") }
            guard !unbound || (handle == nil && subject == nil) else {
                throw ValidationError("--unbound goes with --provider and, if need be, --client")
            }
            guard handle != nil || (subject == nil) == all else {
                throw ValidationError("without --subject this signs out all users; add --all to confirm")
            }
            if let handle, SessionHandle(handle) == nil { throw ValidationError("a handle begins with ses_") }
        }

        func run() async throws {
            let management = try options.completed(by: defaults.config)
            if let handle {
                _ = try await management.call("DELETE", "/admin/v1/sessions/\(handle)")
                return print("ended")
            }
            guard let provider else { return }
            let path: String
            if let subject {
                path = "/admin/v1/subjects/\(Self.encoded(provider))/\(Self.encoded(subject))/sessions"
            } else {
                path =
                    "/admin/v1/sessions?"
                    + FormPairs.encode(
                        [("provider", provider)] + named("client", client) + named("binding", unbound ? "none" : nil))
            }
            // With `binding=none`, the broker ends the sessions in parts. Repeat the call with the cursor of the last answer
            // until an answer has no cursor.
            var (ended, unreadable): (Int64, Int64) = (0, 0)
            var cursor: String?
            repeat {
                let more = cursor.map { "&" + FormPairs.encode([("cursor", $0)]) } ?? ""
                let answer = try await management.call("DELETE", path + more)
                ended += answer?["ended"]?.integer ?? 0
                unreadable += answer?["unreadable"]?.integer ?? 0
                cursor = answer?["next_cursor"]?.string
            } while cursor != nil
            print("ended", ended)
            guard unreadable > 0 else { return }
            StandardError.write(
                "\(unreadable) were kept because the broker cannot open them (from another release, or its ring lacks their key; see /readyz)"
            )
            throw ExitCode(1)
        }

        private func named(_ name: String, _ value: String?) -> [(name: String, value: String)] {
            value.map { [(name: name, value: $0)] } ?? []
        }

        private static func encoded(_ text: String) -> String {
            var result = ""
            for byte in text.utf8 {
                let isPlain =
                    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                    || byte == 0x2D || byte == 0x2E || byte == 0x5F
                result +=
                    isPlain ? String(decoding: [byte], as: UTF8.self) : "%" + Hexadecimal.encode([byte]).uppercased()
            }
            return result
        }
    }
}
