import Broker
import HTTPTypes

/// Writes our three cookies, each as one literal so that no attribute is ever missing (SEC-37).
struct CookieWriter: Sendable {
    /// The session cookie's name as it goes over the wire.
    let sessionName: String
    /// The login cookie's name.
    let loginName: String
    /// The name of the cookie that holds a bound session's pass.
    let passName: String
    private let attributes: String

    init(_ configuration: HTTPConfiguration, isSecure: Bool) {
        // On plain http a browser would throw a `__Host-` cookie away: development uses another name (SEC-37).
        let prefix = "__Host-"
        let name = configuration.cookieName
        sessionName = isSecure || !name.hasPrefix(prefix) ? name : String(name.dropFirst(prefix.count))
        loginName = sessionName + "-login"
        passName = sessionName + "-pass"
        attributes =
            "; Path=/" + (isSecure ? "; Secure" : "") + "; HttpOnly; SameSite=\(configuration.sameSite.attribute)"
    }

    /// Returns the field that sets the session cookie for the seconds that remain, 400 days at most.
    func session(_ token: Secret, lifetime: Duration) -> HTTPField {
        make(sessionName, token.reveal(), seconds: lifetime.wholeSeconds)
    }

    /// Returns the field that sets the login cookie.
    func login(_ token: Secret, lifetime: Duration) -> HTTPField {
        make(loginName, token.reveal(), seconds: lifetime.wholeSeconds)
    }

    /// Returns the field that sets the cookie of a pass.
    func pass(_ pass: GrantedPass) -> HTTPField {
        make(passName, pass.text.reveal(), seconds: pass.lifetime.wholeSeconds)
    }

    /// Returns the fields that clear the session cookie and, where the request brought one, that of its pass.
    func cleared(_ hasPass: Bool) -> [HTTPField] {
        [make(sessionName, "", seconds: 0)] + (hasPass ? [make(passName, "", seconds: 0)] : [])
    }

    private func make(_ name: String, _ value: String, seconds: Int64) -> HTTPField {
        let age = min(max(seconds, 0), 400 * 86_400)
        return HTTPField(name: .setCookie, value: "\(name)=\(value)\(attributes); Max-Age=\(age)")
    }
}
