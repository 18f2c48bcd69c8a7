/// The statements for step-ups and presence keys.
enum StepUpSQL {
    /// Reads the columns for judging a step-up's commit.
    static let steppingUp = NamedSQL(
        """
        SELECT format, ended_at, token_version, version FROM sessions WHERE token = :token
        """)
    /// Stores a step-up; `is_new_grant` is 1 if it begins a new grant, and otherwise 0.
    ///
    /// A new grant raises the token version and the fence, and clears the refresh marks of the old grant.
    static let stepUp = NamedSQL(
        """
        UPDATE sessions SET version = version + 1, token_version = token_version + :is_new_grant,
            fence = fence + :is_new_grant,
            grant_version = CASE :is_new_grant WHEN 1 THEN token_version + 1 ELSE grant_version END,
            claim = CASE :is_new_grant WHEN 1 THEN NULL ELSE claim END,
            claim_until = CASE :is_new_grant WHEN 1 THEN NULL ELSE claim_until END,
            taken_over_at = CASE :is_new_grant WHEN 1 THEN NULL ELSE taken_over_at END,
            taken_over_before = CASE :is_new_grant WHEN 1 THEN 0 ELSE taken_over_before END,
            answer_lost = CASE :is_new_grant WHEN 1 THEN 0 ELSE answer_lost END,
            hold_until = CASE :is_new_grant WHEN 1 THEN NULL ELSE hold_until END,
            hold_for = CASE :is_new_grant WHEN 1 THEN NULL ELSE hold_for END,
            empty_refusals = CASE :is_new_grant WHEN 1 THEN 0 ELSE empty_refusals END,
            first_empty_at = CASE :is_new_grant WHEN 1 THEN NULL ELSE first_empty_at END,
            subject_unchecked = CASE :is_new_grant WHEN 1 THEN 0 ELSE subject_unchecked END,
            tokens_key = :tokens_key, tokens = :tokens, facts_key = :facts_key, facts = :facts, sid = :sid,
            token_expires_at = :token_expires_at, refreshable = :refreshable,
            last_used_at = max(last_used_at, :now), idle_expires_at = max(idle_expires_at, :idle_expires_at)
        WHERE token = :token AND token_version = :token_version AND ended_at IS NULL AND format = 1
        """)
    /// Stores a presence key if the session has none.
    ///
    /// `version_step` is added to the version.
    static let registerPresence = NamedSQL(
        """
        UPDATE sessions SET presence_key = :presence_key, presence = :presence, version = version + :version_step
        WHERE token = :token AND ended_at IS NULL AND parent IS NULL AND presence IS NULL AND format = 1
        """)
    static let standingPresence = NamedSQL(
        """
        SELECT format, ended_at IS NOT NULL OR parent IS NOT NULL, presence_key, presence FROM sessions WHERE token = :token
        """)
    /// Finds an exchange that still has its claim.
    static let owned = NamedSQL(
        "SELECT 1 FROM exchanges WHERE key = :key AND fence = :fence AND outcome = 0 AND format = 1")
    /// Deletes a session's tokens for other APIs, for a step-up that keeps the grant.
    ///
    /// For a new grant the trigger deletes the rows.
    static let dropTargetTokens = NamedSQL("DELETE FROM audience_tokens WHERE session = :session")
}
