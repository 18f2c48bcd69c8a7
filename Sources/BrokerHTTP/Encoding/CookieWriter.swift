import Broker
import HTTPTypes

/// Makes the `Set-Cookie` fields of the broker's five cookies.
///
/// One function writes the attributes of all five, so that no cookie lacks one (SEC-37).
struct CookieWriter: Sendable {
    /// The name of the session cookie, with its prefix.
    let sessionName: String
    /// The login cookie's name.
    let loginName: String
    /// The name of a web child's cookie.
    let webName: String
    /// The name of the cookie in which the app stores the secret of a hand-over.
    let handoverName: String
    /// The name of the cookie that contains a bound session's pass.
    let passName: String
    private let common: String
    private let attributes: String
    private let now: @Sendable () -> WallTime

    init(_ configuration: HTTPConfiguration, isSecure: Bool, now: @escaping @Sendable () -> WallTime) {
        self.now = now
        // Browsers reject a `__Host-` cookie on plain http, so development uses another name (SEC-37).
        let prefix = "__Host-"
        let name = configuration.cookieName
        sessionName = isSecure || !name.hasPrefix(prefix) ? name : String(name.dropFirst(prefix.count))
        loginName = sessionName + "-login"
        passName = sessionName + "-pass"
        webName = sessionName + "-web"
        // The app sets this cookie, and does not know the configured `cookieName`, so the name is constant.
        handoverName = (isSecure ? prefix : "") + "coatcheck-handover"
        common = "; Path=/" + (isSecure ? "; Secure" : "") + "; HttpOnly; SameSite="
        attributes = common + configuration.sameSite.attribute
    }

    /// Returns the field that sets a web child's cookie for the session's remaining lifetime.
    func web(_ token: Secret, lifetime: Duration, _ sameSite: SameSitePolicy) -> HTTPField {
        let word = sameSite.rawValue.prefix(1).uppercased() + sameSite.rawValue.dropFirst()
        return make(webName, token.reveal(), common + word, seconds: lifetime.wholeSeconds)
    }

    /// The field that clears the cookie of a web child.
    var clearedWeb: HTTPField { make(webName, "", seconds: 0) }

    /// The field that clears the cookie with the secret of a hand-over.
    var clearedHandover: HTTPField { make(handoverName, "", seconds: 0) }

    /// Returns the field that sets the session cookie for the session's remaining lifetime, at most 400 days.
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

    /// Returns the fields that clear the session cookie and, if the request brought a pass, the cookie of the pass.
    func cleared(_ hasPass: Bool) -> [HTTPField] {
        [make(sessionName, "", seconds: 0)] + (hasPass ? [make(passName, "", seconds: 0)] : [])
    }

    private func make(_ name: String, _ value: String, seconds: Int64) -> HTTPField {
        make(name, value, attributes, seconds: seconds)
    }

    /// Makes a `Set-Cookie` field, with `Expires` after `Max-Age` (decision 86).
    ///
    /// If a cookie has only `Max-Age`, Java's cookie jar puts the cookie's value in quotes. If a cookie has both, the jar uses
    /// the first. So a wrong clock does not end the cookie early.
    private func make(_ name: String, _ value: String, _ attributes: String, seconds: Int64) -> HTTPField {
        let age = min(max(seconds, 0), 400 * 86_400)
        let end = age == 0 ? WallTime(seconds: 0) : now().advanced(by: .seconds(age))
        return HTTPField(
            name: .setCookie, value: "\(name)=\(value)\(attributes); Max-Age=\(age); Expires=\(end.cookieDate)")
    }
}
