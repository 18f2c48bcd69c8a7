import ArgumentParser
import Broker
import BrokerVault

/// Prints the settings of a file that differ from the running broker's.
struct ConfigDiff: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Say which settings of a file differ from the running broker's; status 1 if any, 2 for trouble.",
        discussion: """
            Prints paths, never values: the two sides are compared by salted digests. Secrets count with what `{env: …}` \
            and `{file: …}` give where this command runs, so run it as the broker's user. The token needs `configure`.
            """)

    @OptionGroup var file: ConfigOption
    @OptionGroup var client: ManagementClient
    @Flag(help: "Print the settings that are the same, too.")
    var all = false

    func run() async throws {
        let changed: Int
        do { changed = try await compare() } catch let trouble as ExitCode {
            throw trouble == .success ? trouble : ExitCode(2)
        }
        guard changed == 0 else { throw ExitCode(1) }
    }

    private func compare() async throws -> Int {
        let values = try file.load().values
        let vault = try OpenSSLVault(ring: .generate(now: SystemClock.wallTime(), random: SystemRandom.bytes))
        let salt = try SystemRandom.bytes(32)
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("salt", Base64URL.encode(salt))
            writer.name("items")
            writer.array { writer in
                for (path, digest) in values.digests(salt, { vault.digest($0) }).sorted(by: { $0.key < $1.key }) {
                    writer.object { writer in
                        writer.member("path", path)
                        writer.member("digest", Base64URL.encode(digest.bytes))
                    }
                }
            }
        }
        let running = try client.completed(by: file.config)
        guard let answer = try await running.call("POST", "/admin/v1/config/diff", body: writer.bytes),
            case .array(let items) = answer["items"]
        else { throw ManagementClient.fault("the answer is not from a Coatcheck broker; check --management") }
        return Self.show(items.compactMap(\.object), all, values)
    }

    private static func show(_ items: [JSONObject], _ all: Bool, _ values: ConfigValues) -> Int {
        var changed = 0
        var asksForMore = false
        for item in items {
            guard let path = item["path"]?.string, let state = item["state"]?.string else { continue }
            changed += state == "changed" ? 1 : 0
            asksForMore = asksForMore || state == "changed" && values.has(path) && TargetPath.isOfSignIn(path)
            guard all || state == "changed" else { continue }
            let needsRestart = item["needs_restart"] == .bool(true)
            print("\(state.padding(to: 8)) \(path)\(needsRestart ? " (takes a restart)" : "")")
        }
        if changed == 0 { print("the running configuration is this one") }
        if asksForMore { print(TargetPath.note) }
        return changed
    }
}

/// The paths of the settings that decide which other APIs a sign-in requests tokens for (RFC 8707).
enum TargetPath {
    static let note =
        "new sign-ins request more than earlier ones. If the provider issues tokens only for requested APIs, earlier sessions "
        + "get `invalid_target` from it for these APIs (502 `provider_error`) until a step-up or a new sign-in"

    /// Returns whether a path is the `resource` or `scope` of a target, which is a `token` or an entry of `tokens`.
    ///
    /// The paths below `exchange` are left out, because a token exchange leaves the sign-in's request unchanged.
    static func isOfSignIn(_ path: String) -> Bool {
        guard path.hasPrefix("upstreams.") || path.hasPrefix("backends.") else { return false }
        return ["resource", "scope"].contains { key in
            guard let found = path.ranges(of: "." + key).last else { return false }
            let rest = path[found.upperBound...]
            let before = path[..<found.lowerBound]
            guard rest.isEmpty || rest.hasPrefix("[") else { return false }
            return before.hasSuffix(".token") || before.hasSuffix("]") && before.contains(".tokens[")
        }
    }
}

extension String {
    fileprivate func padding(to width: Int) -> String { self + String(repeating: " ", count: max(width - count, 0)) }
}
