/// The member `legacy` of a request: the token of the app's session at the old system.
package struct LegacyToken: Sendable {
    /// The token; nil if both the body and the cookie lack it.
    package var token: Secret?
    package var way: ImportWay

    package init(_ token: Secret?, way: ImportWay = .legacy) {
        self.token = token
        self.way = way
    }
}
