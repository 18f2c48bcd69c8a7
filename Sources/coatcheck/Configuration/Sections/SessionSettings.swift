import Broker
import BrokerHTTP

/// The lifetimes of sessions, and their transport (`session`).
struct SessionSettings: Sendable {
    let lifetimes: SessionLifetimes
    let cookieName: String
    let sameSite: HTTPConfiguration.SameSite
    /// The web origins whose pages may call the broker from a browser.
    let allowedOrigins: [String]
    /// The origins of apps in a web shell, from the same list (`capacitor://localhost`).
    let shellOrigins: [String]
    /// The time for which a session may be cached; zero turns the cache off.
    let cache: Duration

    init(_ section: ConfigSection, isSecure: Bool) {
        lifetimes = Self.lifetimes(section, defaults: SessionLifetimes())
        let cookie = section.section("cookie")
        sameSite = cookie.choice("same_site", as: HTTPConfiguration.SameSite.self) ?? .strict
        if sameSite == .none, !isSecure {
            cookie.report("same_site", "cannot be `none` on plain http: browsers drop such a cookie")
        }
        cookieName = Self.cookieName(cookie, isSecure: isSecure)
        let origins = section.texts("allowed_origins")
        let isWeb = { (text: String) in
            WebURL(text).map { $0.path.isEmpty && $0.origin == text && ($0.isSecure || $0.isLoopback) } ?? false
        }
        allowedOrigins = origins.filter(isWeb)
        shellOrigins = origins.filter(ShellOrigin.isOne)
        for text in origins where !isWeb(text) && !ShellOrigin.isOne(text) {
            section.report(
                "allowed_origins",
                "has `\(text)`; it takes origins of browsers (`https://app.example.com`) and of apps in a web shell, which "
                    + "have a scheme and a host (`capacitor://localhost`)")
        }
        cache = Self.cache(section)
    }

    /// Reads `idle` and `absolute` in the section `session` or in the section of a client.
    static func lifetimes(_ section: ConfigSection, defaults: SessionLifetimes) -> SessionLifetimes {
        let longest = Duration.seconds(400 * 86_400)
        let idle = section.duration("idle", default: defaults.idle, in: .seconds(1)...longest)
        let absolute = section.duration("absolute", default: defaults.absolute, in: .seconds(1)...longest)
        if idle > absolute, section.has("idle") || section.has("absolute") {
            section.report(
                section.has("idle") ? "idle" : "absolute", "idle is longer than absolute: it could never end a session")
        }
        return SessionLifetimes(idle: idle, absolute: absolute)
    }

    private static func cookieName(_ cookie: ConfigSection, isSecure: Bool) -> String {
        let fallback = isSecure ? "__Host-coatcheck" : "coatcheck"
        guard let name = cookie.text("name", limit: 64) else { return fallback }
        let isToken = name.utf8.allSatisfy {
            (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D
                || $0 == 0x5F
        }
        guard isToken else {
            cookie.report("name", "has to consist of letters, digits, `-` and `_`")
            return fallback
        }
        let hasPrefix = name.hasPrefix("__Host-")
        if isSecure, !hasPrefix {
            cookie.report("name", "has to begin with `__Host-`, which binds the cookie to this host")
        } else if !isSecure,
            hasPrefix || name.lowercased().hasPrefix("__host-") || name.lowercased().hasPrefix("__secure-")
        {
            cookie.report("name", "cannot have this prefix on plain http: browsers drop such a cookie")
        } else if hasPrefix, name.utf8.count == 7 {
            cookie.report("name", "needs something after `__Host-`")
        } else if name.hasSuffix("-login") {
            cookie.report("name", "cannot end in `-login`, which is the login cookie's")
        } else {
            return name
        }
        return fallback
    }

    private static func cache(_ section: ConfigSection) -> Duration {
        guard let scalar = section.scalar("cache") else { return .seconds(5) }
        if scalar.text == "off" { return .zero }
        if let duration = DurationText.parse(scalar.text), duration <= .seconds(5) { return duration }
        section.report("cache", "has to be `off` or at most `5s`, because an ended session may be served for that long")
        return .seconds(5)
    }
}
