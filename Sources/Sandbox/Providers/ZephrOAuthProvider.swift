/// `/zephr/zephr/oauth2`: Zephr as an OAuth 2.0 server, whose authorization endpoint is the issuer's own path.
struct ZephrOAuthProvider: AuthorizationServer {
    let name = "zephr-oauth2"
    let issuerPath = "/zephr/zephr/oauth2"
    let isOpenID = false
    let paths = ["": "authorize", "/token": "token"]
    let defaults = Settings.base.merging(["iss_parameter": false])

    func endpoint(method: String, path: String) -> String? {
        guard path.hasPrefix(issuerPath) else { return nil }
        return paths[String(path.dropFirst(issuerPath.count))]
    }
}
