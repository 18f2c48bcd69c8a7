/// Is what the file says about a Clover app (kind `clover`).
struct CloverSection: Sendable {
    enum Environment: String, Sendable, CaseIterable { case sandbox, us, eu, la }

    let environment: Environment
    let siteURL: WebURL

    init?(_ section: ConfigSection) {
        section.require("environment")
        section.require("site_url")
        let environment: Environment? = section.choice("environment")
        guard let text = section.endpoint("site_url"), let url = WebURL(text), let environment else { return nil }
        self.environment = environment
        siteURL = url
    }

    /// Is whether a redirect URI lies under the Site URL, which Clover demands: the same origin, and the same path or one
    /// below it at a segment's border.
    func covers(_ redirect: WebURL) -> Bool {
        guard redirect.origin == siteURL.origin else { return false }
        let base = siteURL.path.hasSuffix("/") ? String(siteURL.path.dropLast()) : siteURL.path
        return redirect.path == base || redirect.path.hasPrefix(base + "/")
    }
}
