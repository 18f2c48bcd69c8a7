import Broker
import BrokerProviders
import Testing

@testable import coatcheck

/// The child kinds of a client, in the configuration file.
@Suite("Configurations of child sessions", .timeLimit(.minutes(1)))
struct ChildrenTests {
    private static let client = "client_id: mobile-app"

    private func load(_ children: String, _ more: String = "") throws -> Configuration {
        let text = ConfigurationFixture.minimal
            .replacingFirst(Self.client, with: "\(Self.client)\n        children: \(children)")
            .replacingFirst("providers:\n", with: more + "providers:\n")
        return try ConfigurationFixture.load(text)
    }

    private func faults(_ children: String, _ more: String = "") -> [String] {
        do {
            _ = try load(children, more)
            return []
        } catch let failure as ConfigurationFailure {
            return failure.problems.filter { $0.severity == .error }.map { "\($0.path) \($0.message)" }
        } catch { return ["\(error)"] }
    }

    private static let others = """
        upstreams: {feed: {base_url: "https://api.example.com", provider: example, allow: ["GET /**"]}}
        backends: {orders: {sha256: 1fc72e39e16a2f72e5a5382851ff187f11feac41a2a5901c39579c46c9edbc6d, may: [introspect]}}

        """

    @Test(
        "A client has no `children` → no child kinds; a child kind has no settings → the client's times, and no upstreams"
    )
    func defaults() throws {
        let minimal = try ConfigurationFixture.load(ConfigurationFixture.minimal)
        #expect(minimal.providers.first?.clients.first?.settings.profile.children.isEmpty == true)
        let configuration = try load(
            "{widget: {}, watch: {idle: 1d, absolute: 2d, upstreams: [feed], backends: [orders]}}", Self.others)
        let children = try #require(configuration.providers.first?.clients.first?.settings.profile.children)
        #expect(children.count == 2)
        #expect(children[ChildKind(unchecked: "widget")] == ChildPolicy())
        #expect(
            children[ChildKind(unchecked: "watch")]
                == ChildPolicy(
                    lifetimes: SessionLifetimes(idle: .seconds(86_400), absolute: .seconds(2 * 86_400)),
                    upstreams: [UpstreamName(unchecked: "feed")], backends: [BackendName(unchecked: "orders")]))
    }

    @Test(
        "Kind `web` sets `idle` or `absolute` → its sessions have this time; without it → half an hour unused, eight hours in all"
    )
    func webTimes() throws {
        for (times, idle, absolute) in [
            ("", 1800, 28_800), ("idle: 10m, ", 600, 28_800), ("absolute: 2d, ", 1800, 2 * 86_400),
        ] {
            let configuration = try load("{web: {\(times)origins: [\"https://shop.example.com\"]}}")
            let client = try #require(configuration.providers.first?.clients.first)
            let lifetimes = SessionLifetimes(idle: .seconds(idle), absolute: .seconds(absolute))
            #expect(client.settings.profile.children[.web]?.lifetimes == lifetimes, "\(times)")
        }
    }

    @Test("A child kind with an unknown upstream, backend or key, a bad name or impossible times → refused")
    func refused() {
        let path = "providers.example.clients.ios.children"
        let expectations = [
            ("{widget: {upstreams: [fed]}}", "\(path).widget.upstreams names an upstream that is not configured"),
            ("{widget: {backends: [order]}}", "\(path).widget.backends names a backend that is not configured"),
            ("{\"a/b\": {}}", "\(path).a/b has a name"), ("{widget: {life: 1d}}", "\(path).widget.life is not a key"),
            ("{widget: {idle: 2d, absolute: 1d}}", "\(path).widget.idle idle is longer"),
        ]
        for (children, words) in expectations {
            let found = faults(children, Self.others)
            #expect(found.count == 1 && found[0].hasPrefix(words), "\(children): \(found)")
        }
        #expect(faults("{widget: {upstreams: [feed]}}", Self.others).isEmpty)
    }

    @Test(
        "A child kind may call an upstream that may demand a new sign-in → a warning, unless the upstream has `challenges: off`"
    )
    func stepUps() throws {
        let widget = "{widget: {upstreams: [feed]}}"
        func warnings(_ children: String, _ others: String = Self.others) throws -> [String] {
            try load(children, others).warnings.filter { $0.message.contains("another sign-in") }.map(\.path)
        }
        #expect(try warnings(widget) == ["providers.example.clients.ios.children.widget.upstreams"])
        #expect(try warnings("{widget: {}, watch: {backends: [orders]}}").isEmpty)
        let silent = Self.others.replacing("provider: example,", with: "provider: example, challenges: off,")
        #expect(try warnings(widget, silent).isEmpty)
    }

    @Test(
        "A client with `binding: enforce` has a `web` kind → a warning that the web cookie has no key; `observe` → none"
    )
    func bearers() throws {
        let web = #"{web: {origins: ["https://shop.example.com"]}}"#
        let bound = "\n        binding: {mode: enforce}"
        func warnings(_ children: String) throws -> [String] {
            try load(children).warnings.map { "\($0.path) \($0.message)" }.filter { $0.contains("no key") }
        }
        #expect(try warnings(web).isEmpty)
        #expect(try warnings("{widget: {}}" + bound).isEmpty)
        #expect(try warnings(web + "\n        binding: {mode: observe}").isEmpty)
        #expect(
            try warnings(web + bound) == [
                "providers.example.clients.ios.children.web is a cookie and has no key, although the client has "
                    + "`binding: enforce`: a bearer of what its `upstreams` and `backends` name, for its life, and of nothing else"
            ])
    }
}
