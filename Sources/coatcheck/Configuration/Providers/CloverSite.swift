/// A Clover app's Site URL, which every redirect URI has to lie under.
struct CloverSite: Sendable {
    let url: WebURL

    /// Returns whether a redirect URI lies under it: the same origin, and the same path or one below it at a segment's border.
    func covers(_ redirect: WebURL) -> Bool {
        guard redirect.origin == url.origin else { return false }
        let base = url.path.hasSuffix("/") ? String(url.path.dropLast()) : url.path
        return redirect.path == base || redirect.path.hasPrefix(base + "/")
    }
}
