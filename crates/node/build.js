'use strict'

// Builds the native module for this machine, and puts it where lib/native.js looks first.

const { execFileSync } = require('node:child_process')
const { copyFileSync } = require('node:fs')
const path = require('node:path')

const root = path.join(__dirname, '..', '..')
const name = { darwin: 'libcolibri_node.dylib', win32: 'colibri_node.dll' }[process.platform] ?? 'libcolibri_node.so'
execFileSync('cargo', ['build', '--release', '-p', 'colibri-node'], { cwd: root, stdio: 'inherit' })
const target = process.env.CARGO_TARGET_DIR ?? path.join(root, 'target')
copyFileSync(path.join(target, 'release', name), path.join(__dirname, `colibri.${process.platform}-${process.arch}.node`))
