import Broker
import BrokerHTTP
import BrokerVault
import Testing

@testable import coatcheck

@Suite("Comparison of two configurations by every value in their files")
struct ConfigValuesTests {
    /// Loads a file with the given `children` of a client, `allow` of a backend, and default of a Zephr attribute.
    private func load(
        children: String = "{quiet: {}}", allow: String = "[{provider: example}]", attribute: String = "x"
    ) throws -> Configuration {
        try ConfigurationFixture.load(
            ConfigurationFixture.minimal + """

                        children: \(children)
                  news:
                    kind: zephr
                    base_url: https://news.example.com
                    social_providers: [google]
                    attribute_defaults: {source: \(attribute)}
                    clients:
                      ios: {platform: ios, redirect_uris: ["com.example.news:/cb"]}
                backends:
                  orders:
                    sha256: 3b1f0d7c5f0a3a9d4b8f6b2f6a8e1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d
                    may: [introspect]
                    allow: \(allow)
                """)
    }

    private func paths(_ old: Configuration, _ new: Configuration) -> [String] {
        let changes = new.values.changes(since: old.values)
        // The command `config diff` compares digests of the values. It has to find the same differences as the comparison of
        // the values themselves.
        let salt: [UInt8] = [1, 2, 3]
        let vault = try? OpenSSLVault(ring: .generate(now: SystemClock.wallTime(), random: SystemRandom.bytes))
        guard let vault else { return ["no vault"] }
        let compared = FixedSettings.compare(
            old.values.digests(salt) { vault.digest($0) }, with: new.values.digests(salt) { vault.digest($0) })
        #expect(compared.filter(\.isChanged).map(\.path) == changes)
        return changes
    }

    @Test("A child kind without settings is renamed → the settings with the old and with the new name have changed")
    func mapping() throws {
        let children = "providers.example.clients.ios.children"
        #expect(
            paths(try load(), try load(children: "{silent: {}}")) == ["\(children).quiet", "\(children).silent"])
        #expect(paths(try load(), try load(children: "{quiet: {}, silent: }")) == ["\(children).silent"])
        #expect(paths(try load(children: "{quiet: {}}"), try load(children: "{}")) == [children, "\(children).quiet"])
        #expect(paths(try load(), try load()).isEmpty)
    }

    @Test(
        "A backend's `allow` becomes an empty list → this setting has changed, and the backend may not ask about any session"
    )
    func list() throws {
        let (open, closed) = (try load(), try load(allow: "[]"))
        #expect(
            paths(open, closed) == ["backends.orders.allow", "backends.orders.allow[0].provider"])
        #expect(closed.backends.first?.settings.allow?.isEmpty == true)
    }

    @Test(
        "Quotes turn a setting's number or boolean into a text → this setting has changed",
        arguments: [("true", "\"true\""), ("1", "'1'"), ("-2", "\"-2\"")])
    func quotes(_ plain: String, _ quoted: String) throws {
        #expect(
            paths(try load(attribute: plain), try load(attribute: quoted))
                == ["providers.news.attribute_defaults.source"])
    }

    @Test("Quotes are added to a setting's text → no change")
    func sameText() throws {
        #expect(paths(try load(attribute: "app"), try load(attribute: "\"app\"")).isEmpty)
    }
}
