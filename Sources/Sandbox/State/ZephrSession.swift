/// A Zephr session.
struct ZephrSession: Sendable {
    var user: String
    var email: String?
    var trackingID: String
    var attributes: JSON
}
